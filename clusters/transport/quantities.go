package transport

import (
	"bytes"
	"errors"
	"slices"
)

// ErrQuantityTooExpensive ends a response with a number that the hub would take too long to parse.
var ErrQuantityTooExpensive = errors.New("the member sends a quantity that is too expensive to parse")

// exponentCosts are the costs of a quantity by the number of digits in its exponent, in addition to
// its bytes. Measured: decoding 1e-9999 takes 30 µs, and each further digit takes thirty times as
// long: a second for 1e-9999999. So numbersBurst costs the hub three seconds, and numbersRate 3 %
// of a core. The threat ends when resource.Quantity limits its exponents; then this file can be
// deleted.
var exponentCosts = map[int]int{3: 1 << 10, 4: 8 << 10, 5: 64 << 10, 6: 1 << 20, 7: 32 << 20}

const (
	// maxExponent is the largest permitted number of digits in an exponent. No quantity needs
	// three, but a hash such as 12e45678 may look like a number.
	maxExponent = 7
	// A number with more than maxSmall digits and a positive exponent is stored with all its zeros.
	// Encoding it takes a quarter of a millisecond for an exponent of three digits, 14 ms for four,
	// and a second for five.
	maxSmall, maxLargeExponent = 18, 3
	largeCost                  = 16 << 10
	// The time to parse a number is proportional to the square of its digits: over a second for a
	// million digits, which cost all of numbersBurst.
	digitsCost = 14
)

// textFields are fields whose direct string values are never parsed as quantities, so numbers in
// them are free. Nested values are not exempt: an environment variable may hold a quantity.
var textFields = []string{"labels", "annotations", "matchLabels", "nodeSelector", "args", "command"}

// maxWord is the number of bytes stored of a text: more than the longest name in textFields with
// its closing quotation mark.
const maxWord = 14

// envField is the field that lists objects whose values are text.
const envField = "env"

// quantityScanner finds the numbers in JSON, quoted or not, that are parsed as quantities. It reads
// one byte at a time.
type quantityScanner struct {
	number          decimal
	quoted, escaped bool
	// word is the beginning of the last text, and field is the name of the field whose value
	// follows.
	word, field []byte
	// depth is the number of open objects and lists. Values at textDepth are text, until depth is
	// less than textUntil.
	depth, textDepth, textUntil int
}

// inertBytes are bytes that do not change the state while no number can begin: nearly all bytes
// that members send.
var inertBytes = func() (inert [256]bool) {
	for b := range inert {
		inert[b] = !bytes.ContainsRune([]byte("\"\\{}[]:, \t\r\nn"), rune(b))
	}
	return inert
}()

// idle reports whether the scanner can skip inert bytes.
func (s *quantityScanner) idle() bool {
	if s.quoted {
		return s.number.state == notDecimal && !s.escaped && len(s.word) == maxWord
	}
	return s.number.state == notDecimal
}

// atEnd reports whether all objects and lists are closed.
func (s *quantityScanner) atEnd() bool { return s.depth == 0 && !s.quoted }

// next reads a byte, and returns the cost of the number that ends at this byte.
func (s *quantityScanner) next(b byte) (cost int, err error) {
	if s.quoted {
		return s.inText(b)
	}
	switch b {
	case '"':
		s.quoted, s.number, s.word = true, decimal{}, s.word[:0]
	case '{', '[', '}', ']', ':', ',', ' ', '\t', '\r', '\n':
		cost, err = s.number.cost()
		s.number = decimal{}
		s.inStructure(b)
	default:
		s.number.next(b)
	}
	return cost, err
}

func (s *quantityScanner) inText(b byte) (cost int, err error) {
	if len(s.word) < maxWord {
		s.word = append(s.word, b)
	}
	switch {
	case s.escaped:
		s.escaped = false
	case b == '\\': // no quantity contains one
		s.escaped, s.number.state = true, notDecimal
	case b == '"':
		s.quoted, s.word = false, s.word[:max(0, len(s.word)-1)]
		if s.textDepth == 0 || s.depth != s.textDepth {
			cost, err = s.number.cost()
		}
		s.number = decimal{}
	default:
		s.number.next(b)
	}
	return cost, err
}

// inStructure reads a byte that is not part of a value, and tracks where values are text.
func (s *quantityScanner) inStructure(b byte) {
	switch b {
	case ':':
		s.field = append(s.field[:0], s.word...)
	case ',':
		s.field = s.field[:0]
	case '{', '[':
		s.depth++
		switch {
		case s.textDepth > 0:
		case slices.Contains(textFields, string(s.field)):
			s.textDepth, s.textUntil = s.depth, s.depth
		case string(s.field) == envField:
			s.textDepth, s.textUntil = s.depth+1, s.depth
		}
		s.field = s.field[:0]
	case '}', ']':
		s.depth--
		if s.depth < s.textUntil {
			s.textDepth, s.textUntil = 0, 0
		}
	}
}

// decimal scans a possible number: digits with a point, and an exponent.
type decimal struct {
	state decimalState
	// isNegative is set for a negative exponent. digits counts the digits before the exponent;
	// exponent counts the digits of the exponent without leading zeros.
	isNegative       bool
	digits, exponent int
}

type decimalState int

const (
	beforeDecimal decimalState = iota // harmless spaces, or a sign
	inDigits                          // in its digits
	atExponent                        // after its e
	afterSign                         // after the sign of its exponent
	inExponent                        // in the digits of its exponent
	afterDecimal                      // in the spaces after it
	notDecimal
)

// next reads a byte. A text may have spaces around the number, including spaces that are not ASCII.
func (d *decimal) next(b byte) {
	digit, space := '0' <= b && b <= '9', b == ' ' || b >= 0x80
	switch {
	case d.state == beforeDecimal && (space || b == '+' || b == '-'):
	case d.state <= inDigits && (digit || b == '.'):
		d.state = inDigits
		d.digits++
	case d.state == inDigits && (b == 'e' || b == 'E'):
		d.state = atExponent
	case d.state == atExponent && (b == '+' || b == '-'):
		d.state, d.isNegative = afterSign, b == '-'
	case d.state >= atExponent && d.state <= inExponent && digit:
		d.state = inExponent
		if d.exponent > 0 || b != '0' {
			d.exponent++
		}
	case (d.state == inExponent || d.state == afterDecimal) && space:
		d.state = afterDecimal
	default:
		d.state = notDecimal
	}
}

// cost returns the cost of parsing the number, or an error if the cost is too high.
func (d *decimal) cost() (int, error) {
	cost := d.digits * d.digits >> digitsCost
	if d.state != inExponent && d.state != afterDecimal {
		return cost, nil
	}
	large := d.digits > maxSmall && !d.isNegative
	switch {
	case d.exponent > maxExponent, large && d.exponent > maxLargeExponent:
		return 0, ErrQuantityTooExpensive
	case large && d.exponent == maxLargeExponent:
		cost += largeCost
	}
	return cost + exponentCosts[d.exponent], nil
}
