package transport

import (
	"bytes"
	"errors"
	"slices"
)

// ErrQuantityTooExpensive ends an answer of a member that has a number in it which takes the hub for ever to read.
var ErrQuantityTooExpensive = errors.New("the member sends a number that nothing can be")

// exponentCosts are what a quantity costs by the digits of its exponent, beside its bytes. Measured: to decode 1e-9999 takes 30 µs, and ten times
// the exponent thirty times that: a second for 1e-9999999. So numbersBurst takes the hub some three seconds, and numbersRate 3 % of a core.
var exponentCosts = map[int]int{3: 1 << 10, 4: 8 << 10, 5: 64 << 10, 6: 1 << 20, 7: 32 << 20}

const (
	// maxExponent is how many digits an exponent may have; no quantity needs three. Fewer are no reason to refuse an answer: a hash may look like
	// such a number, 12e45678.
	maxExponent = 7
	// A number with more digits than maxSmall and a positive exponent is kept with all its zeros, and encoding it again takes a quarter of a
	// millisecond for an exponent of three digits, 14 ms for four, and a second for five.
	maxSmall, maxLargeExponent = 18, 3
	largeCost                  = 16 << 10
	// Reading a number takes the square of the number of its digits: over a second for a million, which this makes all of numbersBurst.
	digitsCost = 14
)

// textFields are the fields, of objects of all kinds, whose values are text; so they may hold what looks like a number, and costs nothing.
// Not the values of values: those of an environment variable can be quantities.
var textFields = []string{"labels", "annotations", "matchLabels", "nodeSelector", "args", "command"}

// maxWord is how much of a text is kept: more than any of those has, and the quotation mark behind it.
const maxWord = 14

// environment is the field that has a list of objects whose values are text.
const environment = "env"

// quantityScanner finds the numbers in JSON, be they text or not, that are read as quantities. It sees it byte by byte.
type quantityScanner struct {
	number          decimal
	quoted, escaped bool
	// word is the beginning of the last text, and field what a field is called whose value is next.
	word, field []byte
	// depth is how many objects and lists are open; those at the depth of text have values that are text, until the depth is less than until.
	depth, text, until int
}

// inertBytes change nothing while there can be no number: nearly all of what members send.
var inertBytes = func() (inert [256]bool) {
	for b := range inert {
		inert[b] = !bytes.ContainsRune([]byte("\"\\{}[]:, \t\r\nn"), rune(b))
	}
	return inert
}()

// idle tells whether inert bytes need not be looked at.
func (n *quantityScanner) idle() bool {
	if n.quoted {
		return n.number.state == notDecimal && !n.escaped && len(n.word) == maxWord
	}
	return n.number.state == notDecimal
}

// atEnd reports whether all objects and lists are closed.
func (n *quantityScanner) atEnd() bool { return n.depth == 0 && !n.quoted }

// next takes a byte, and returns what a number costs that ends with it.
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
	case b == '\\': // a quantity has none
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

// structure takes a byte that is no part of a value, and keeps in mind where values are text.
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

// decimal is what is known of a text that may be one: digits with a point, and an exponent.
type decimal struct {
	state decimalState
	// minus tells of a negative exponent. The digits are counted: those before the exponent, and those of it that are not zeros before others.
	minus            bool
	digits, exponent int
}

type decimalState int

const (
	beforeDecimal decimalState = iota // space, which does no harm, or a sign
	inDigits                          // in its digits
	atExponent                        // behind its e
	afterSign                         // behind the sign of its exponent
	inExponent                        // in the digits of that
	afterDecimal                      // space
	notDecimal
)

// next takes a byte. A text may have spaces around the number, also such as are not ASCII.
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

// cost is what it costs to read it, whatever follows its digits.
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
