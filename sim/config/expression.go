package config

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
)

// value is a number: an integer of any size, as PeerSim has them, or a float.
type value struct {
	i *big.Int // nil: the number is a float
	f float64
}

func (v value) float() float64 {
	if v.i != nil {
		f, _ := new(big.Float).SetInt(v.i).Float64()
		return f
	}
	return v.f
}

const (
	maxDepth = 100  // length of a chain of keys that use other keys, as in PeerSim
	maxBits  = 4096 // size of an integer
	maxNest  = 200  // depth of parentheses
)

// reader evaluates one expression.
type reader struct {
	f     *File
	key   string // the key whose value is computed
	text  string
	at    int
	depth int
	nest  int
}

func quote(s string) string { return strconv.Quote(s) }
func itoa(n int) string     { return strconv.Itoa(n) }

// evaluate computes the value of an expression. The parameter key is the key whose value the
// expression is.
func (f *File) evaluate(key, text string, depth int) (value, error) {
	if depth > maxDepth {
		return value{}, fmt.Errorf("it uses itself, or a chain of more than %d keys",
			maxDepth)
	}
	r := &reader{f: f, key: key, text: text, depth: depth}
	v, err := r.sum()
	if err == nil {
		if r.blank(); r.at < len(r.text) {
			err = fmt.Errorf("%s is not understood from %s on", quote(text), quote(r.text[r.at:]))
		}
	}
	return v, err
}

func (r *reader) blank() {
	for r.at < len(r.text) && (r.text[r.at] == ' ' || r.text[r.at] == '\t') {
		r.at++
	}
}

// If the next character is one of the given ones, the method next consumes and returns it.
func (r *reader) next(characters string) byte {
	r.blank()
	if r.at < len(r.text) && strings.IndexByte(characters, r.text[r.at]) >= 0 {
		r.at++
		return r.text[r.at-1]
	}
	return 0
}

func (r *reader) sum() (value, error) {
	v, err := r.product()
	for err == nil {
		op := r.next("+-")
		if op == 0 {
			break
		}
		var o value
		if o, err = r.product(); err == nil {
			v, err = apply(op, v, o)
		}
	}
	return v, err
}

func (r *reader) product() (value, error) {
	v, err := r.signed()
	for err == nil {
		op := r.next("*/%")
		if op == 0 {
			break
		}
		var o value
		if o, err = r.signed(); err == nil {
			v, err = apply(op, v, o)
		}
	}
	return v, err
}

func (r *reader) signed() (value, error) {
	switch r.next("+-") {
	case '-':
		v, err := r.signed()
		if err != nil {
			return v, err
		}
		return apply('-', value{i: new(big.Int)}, v)
	case '+':
		return r.signed()
	}
	v, err := r.atom()
	if err == nil && r.next("^") != 0 {
		var o value
		if o, err = r.signed(); err == nil {
			return apply('^', v, o)
		}
	}
	return v, err
}

func letter(c byte) bool { return c == '_' || c|0x20 >= 'a' && c|0x20 <= 'z' }
func digit(c byte) bool  { return c >= '0' && c <= '9' }

func (r *reader) atom() (value, error) {
	if r.nest++; r.nest > maxNest {
		return value{}, errors.New("the expression is nested too deeply")
	}
	defer func() { r.nest-- }()
	if r.next("(") != 0 {
		v, err := r.sum()
		if err == nil && r.next(")") == 0 {
			err = fmt.Errorf("%s lacks a closing parenthesis", quote(r.text))
		}
		return v, err
	}
	r.blank()
	begin := r.at
	if r.at < len(r.text) && (digit(r.text[r.at]) || r.text[r.at] == '.') {
		return r.number()
	}
	for r.at < len(r.text) && (letter(r.text[r.at]) || digit(r.text[r.at]) ||
		r.text[r.at] == '.' && r.at > begin) {
		r.at++
	}
	name := r.text[begin:r.at]
	if name == "" {
		if strings.TrimSpace(r.text) == "" {
			return value{}, fmt.Errorf("key %s has no value", quote(r.key))
		}
		return value{}, fmt.Errorf("%s lacks a number at character %d", quote(r.text), begin+1)
	}
	if f := functions[name]; f != nil && r.next("(") != 0 {
		v, err := r.sum()
		if err == nil && r.next(")") == 0 {
			err = fmt.Errorf("%s lacks a closing parenthesis", quote(r.text))
		}
		return value{f: f(v.float())}, err
	}
	e := r.f.entries[name]
	if e == nil {
		var names []string
		for k := range r.f.entries {
			names = append(names, k)
		}
		in := ""
		if r.depth > 0 {
			in = " in the value of " + quote(r.key)
		}
		return value{}, fmt.Errorf("%s%s is neither a number nor a key%s", quote(name), in,
			r.f.suggestOf(name, names))
	}
	e.used = true
	return r.f.evaluate(name, e.value, r.depth+1)
}

var functions = map[string]func(float64) float64{"sin": math.Sin, "cos": math.Cos,
	"tan": math.Tan, "sqrt": math.Sqrt, "log": math.Log10, "ln": math.Log, "exp": math.Exp,
	"abs": math.Abs}

// units are the units of time that a number may have, in ns.
var units = map[string]int64{"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9, "m": 60e9, "h": 3600e9}

func (r *reader) number() (value, error) {
	begin := r.at
	for r.at < len(r.text) && (digit(r.text[r.at]) || r.text[r.at] == '.') {
		r.at++
	}
	if e := r.at; e+1 < len(r.text) && r.text[e]|0x20 == 'e' && (digit(r.text[e+1]) ||
		e+2 < len(r.text) && (r.text[e+1] == '-' || r.text[e+1] == '+') && digit(r.text[e+2])) {
		for r.at += 2; r.at < len(r.text) && digit(r.text[r.at]); r.at++ {
		}
	}
	digits := r.text[begin:r.at]
	begin = r.at
	for r.at < len(r.text) && letter(r.text[r.at]) {
		r.at++
	}
	unit := r.text[begin:r.at]
	factor := int64(1)
	if unit != "" {
		if factor = units[unit]; factor == 0 {
			return value{}, fmt.Errorf("%s has the unit %s: want ns, us, ms, s, m or h",
				quote(digits+unit), quote(unit))
		}
	}
	if i, ok := new(big.Int).SetString(digits, 10); ok && len(digits) <= maxBits/4 {
		return value{i: i.Mul(i, big.NewInt(factor))}, nil
	}
	f, err := strconv.ParseFloat(digits, 64)
	if err != nil {
		return value{}, fmt.Errorf("%s is not a number", quote(digits))
	}
	if unit != "" {
		return value{i: big.NewInt(int64(math.Round(f * float64(factor))))}, nil
	}
	return value{f: f}, nil
}

func apply(op byte, a, b value) (value, error) {
	if a.i == nil || b.i == nil {
		x, y := a.float(), b.float()
		switch op {
		case '+':
			return value{f: x + y}, nil
		case '-':
			return value{f: x - y}, nil
		case '*':
			return value{f: x * y}, nil
		case '/':
			return value{f: x / y}, nil
		case '%':
			return value{f: math.Mod(x, y)}, nil
		}
		return value{f: math.Pow(x, y)}, nil
	}
	i := new(big.Int)
	switch op {
	case '+':
		i.Add(a.i, b.i)
	case '-':
		i.Sub(a.i, b.i)
	case '*':
		i.Mul(a.i, b.i)
	case '/', '%':
		if b.i.Sign() == 0 {
			return value{}, errors.New("it divides by 0")
		}
		if op == '/' {
			i.Quo(a.i, b.i)
		} else {
			i.Rem(a.i, b.i)
		}
	case '^':
		switch {
		case b.i.Sign() < 0:
			return value{f: math.Pow(a.float(), b.float())}, nil
		case a.i.BitLen() > 1 && (!b.i.IsInt64() || b.i.Int64()*int64(a.i.BitLen()-1) > maxBits ||
			b.i.Int64() > maxBits):
			return value{}, fmt.Errorf("%v^%v is too large", a.i, b.i)
		}
		i.Exp(a.i, b.i, nil)
	}
	if i.BitLen() > maxBits {
		return value{}, errors.New("a number has too many digits")
	}
	return value{i: i}, nil
}
