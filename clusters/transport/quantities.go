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

// environment is the field that lists objects whose values are text.
const environment = "env"

// quantityScanner finds the numbers in JSON, quoted or not, that are parsed as quantities. It reads
// one byte at a time.
type quantityScanner struct {
	number          decimal
	quoted, escaped bool
	// word is the beginning of the last text, and field is the name of the field whose value
	// follows.
	word, field []byte
	// depth is the number of open objects and lists. Values at the depth text are text, until depth
	// is less than until.
	depth, text, until int
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
func (n *quantityScanner) idle() bool {
	if n.quoted {
		return n.number.state == notDecimal && !n.escaped && len(n.word) == maxWord
	}
	return n.number.state == notDecimal
}

// atEnd reports whether all objects and lists are closed.
func (n *quantityScanner) atEnd() bool { return n.depth == 0 && !n.quoted }

// next reads a byte, and returns the cost of the number that ends at this byte.
func (n *quantityScanner) next(b byte) (cost int, err error) {
	if n.quoted {
		return n.inText(b)
	}
	switch b {
	case '"':
		n.quoted, n.number, n.word = true, decimal{}, n.word[:0]
	case '{', '[', '}', ']', ':', ',', ' ', '\t', '\r', '\n':
		cost, err = n.number.cost()
		n.number = decimal{}
		n.structure(b)
	default:
		n.number.next(b)
	}
	return cost, err
}

func (n *quantityScanner) inText(b byte) (cost int, err error) {
	if len(n.word) < maxWord {
		n.word = append(n.word, b)
	}
	switch {
	case n.escaped:
		n.escaped = false
	case b == '\\': // no quantity contains one
		n.escaped, n.number.state = true, notDecimal
	case b == '"':
		n.quoted, n.word = false, n.word[:max(0, len(n.word)-1)]
		if n.text == 0 || n.depth != n.text {
			cost, err = n.number.cost()
		}
		n.number = decimal{}
	default:
		n.number.next(b)
	}
	return cost, err
}

// structure reads a byte that is not part of a value, and tracks where values are text.
func (n *quantityScanner) structure(b byte) {
	switch b {
	case ':':
		n.field = append(n.field[:0], n.word...)
	case ',':
		n.field = n.field[:0]
	case '{', '[':
		n.depth++
		switch {
		case n.text > 0:
		case slices.Contains(textFields, string(n.field)):
			n.text, n.until = n.depth, n.depth
		case string(n.field) == environment:
			n.text, n.until = n.depth+1, n.depth
		}
		n.field = n.field[:0]
	case '}', ']':
		n.depth--
		if n.depth < n.until {
			n.text, n.until = 0, 0
		}
	}
}

// decimal scans a possible number: digits with a point, and an exponent.
type decimal struct {
	state decimalState
	// minus is set for a negative exponent. digits counts the digits before the exponent; exponent
	// counts the digits of the exponent without leading zeros.
	minus            bool
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
func (n *decimal) next(b byte) {
	digit, space := '0' <= b && b <= '9', b == ' ' || b >= 0x80
	switch {
	case n.state == beforeDecimal && (space || b == '+' || b == '-'):
	case n.state <= inDigits && (digit || b == '.'):
		n.state = inDigits
		n.digits++
	case n.state == inDigits && (b == 'e' || b == 'E'):
		n.state = atExponent
	case n.state == atExponent && (b == '+' || b == '-'):
		n.state, n.minus = afterSign, b == '-'
	case n.state >= atExponent && n.state <= inExponent && digit:
		n.state = inExponent
		if n.exponent > 0 || b != '0' {
			n.exponent++
		}
	case (n.state == inExponent || n.state == afterDecimal) && space:
		n.state = afterDecimal
	default:
		n.state = notDecimal
	}
}

// cost returns the cost of parsing the number, or an error if the cost is too high.
func (n *decimal) cost() (int, error) {
	cost := n.digits * n.digits >> digitsCost
	if n.state != inExponent && n.state != afterDecimal {
		return cost, nil
	}
	large := n.digits > maxSmall && !n.minus
	switch {
	case n.exponent > maxExponent, large && n.exponent > maxLargeExponent:
		return 0, ErrQuantityTooExpensive
	case large && n.exponent == maxLargeExponent:
		cost += largeCost
	}
	return cost + exponentCosts[n.exponent], nil
}
