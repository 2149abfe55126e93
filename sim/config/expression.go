package config

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
)

// numberValue is a number: an integer of any size, as PeerSim has them, or a float.
type numberValue struct {
	i *big.Int // nil: the number is a float
	f float64
}

func (v numberValue) float() float64 {
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

// expressionReader evaluates one expression.
type expressionReader struct {
	f     *File
	key   string // the key whose value is computed
	text  string
	at    int
	depth int
	nest  int
}

func quote(s string) string { return strconv.Quote(s) }
func itoa(n int) string     { return strconv.Itoa(n) }

// evaluate computes the value of an expression. The parameter key is the key to which the
// expression belongs.
func (f *File) evaluate(key, text string, depth int) (numberValue, error) {
	if depth > maxDepth {
		return numberValue{}, fmt.Errorf("it uses itself, or a chain of more than %d keys",
			maxDepth)
	}
	r := &expressionReader{f: f, key: key, text: text, depth: depth}
	v, err := r.sum()
	if err == nil {
		if r.blank(); r.at < len(r.text) {
			err = fmt.Errorf("%s is not understood from %s on", quote(text), quote(r.text[r.at:]))
		}
	}
	return v, err
}

func (r *expressionReader) blank() {
	for r.at < len(r.text) && (r.text[r.at] == ' ' || r.text[r.at] == '\t') {
		r.at++
	}
}

// If the next character is one of the given ones, nextIf consumes and returns it.
func (r *expressionReader) nextIf(characters string) byte {
	r.blank()
	if r.at < len(r.text) && strings.IndexByte(characters, r.text[r.at]) >= 0 {
		r.at++
		return r.text[r.at-1]
	}
	return 0
}

func (r *expressionReader) sum() (numberValue, error) {
	v, err := r.product()
	for err == nil {
		op := r.nextIf("+-")
		if op == 0 {
			break
		}
		var o numberValue
		if o, err = r.product(); err == nil {
			v, err = apply(op, v, o)
		}
	}
	return v, err
}

func (r *expressionReader) product() (numberValue, error) {
	v, err := r.signed()
	for err == nil {
		op := r.nextIf("*/%")
		if op == 0 {
			break
		}
		var o numberValue
		if o, err = r.signed(); err == nil {
			v, err = apply(op, v, o)
		}
	}
	return v, err
}

func (r *expressionReader) signed() (numberValue, error) {
	switch r.nextIf("+-") {
	case '-':
		v, err := r.signed()
		if err != nil {
			return v, err
		}
		return apply('-', numberValue{i: new(big.Int)}, v)
	case '+':
		return r.signed()
	}
	v, err := r.atom()
	if err == nil && r.nextIf("^") != 0 {
		var o numberValue
		if o, err = r.signed(); err == nil {
			return apply('^', v, o)
		}
	}
	return v, err
}

func letter(c byte) bool { return c == '_' || c|0x20 >= 'a' && c|0x20 <= 'z' }
func digit(c byte) bool  { return c >= '0' && c <= '9' }

func (r *expressionReader) atom() (numberValue, error) {
	if r.nest++; r.nest > maxNest {
		return numberValue{}, errors.New("the expression is nested too deeply")
	}
	defer func() { r.nest-- }()
	if r.nextIf("(") != 0 {
		v, err := r.sum()
		if err == nil && r.nextIf(")") == 0 {
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
			return numberValue{}, fmt.Errorf("key %s has no value", quote(r.key))
		}
		return numberValue{}, fmt.Errorf("%s lacks a number at character %d", quote(r.text),
			begin+1)
	}
	if f := functions[name]; f != nil && r.nextIf("(") != 0 {
		v, err := r.sum()
		if err == nil && r.nextIf(")") == 0 {
			err = fmt.Errorf("%s lacks a closing parenthesis", quote(r.text))
		}
		return numberValue{f: f(v.float())}, err
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
		return numberValue{}, fmt.Errorf("%s%s is neither a number nor a key%s", quote(name), in,
			r.f.suggestOf(name, names))
	}
	e.used = true
	return r.f.evaluate(name, e.value, r.depth+1)
}

var functions = map[string]func(float64) float64{"sin": math.Sin, "cos": math.Cos,
	"tan": math.Tan, "sqrt": math.Sqrt, "log": math.Log10, "ln": math.Log, "exp": math.Exp,
	"abs": math.Abs}

// timeUnits are the units of time that a number may have, in ns.
var timeUnits = map[string]int64{"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9, "m": 60e9, "h": 3600e9}

func (r *expressionReader) number() (numberValue, error) {
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
		if factor = timeUnits[unit]; factor == 0 {
			return numberValue{}, fmt.Errorf("%s has the unit %s: want ns, us, ms, s, m or h",
				quote(digits+unit), quote(unit))
		}
	}
	if i, ok := new(big.Int).SetString(digits, 10); ok && len(digits) <= maxBits/4 {
		return numberValue{i: i.Mul(i, big.NewInt(factor))}, nil
	}
	f, err := strconv.ParseFloat(digits, 64)
	if err != nil {
		return numberValue{}, fmt.Errorf("%s is not a number", quote(digits))
	}
	if unit != "" {
		return numberValue{i: big.NewInt(int64(math.Round(f * float64(factor))))}, nil
	}
	return numberValue{f: f}, nil
}

func apply(op byte, a, b numberValue) (numberValue, error) {
	if a.i == nil || b.i == nil {
		x, y := a.float(), b.float()
		switch op {
		case '+':
			return numberValue{f: x + y}, nil
		case '-':
			return numberValue{f: x - y}, nil
		case '*':
			return numberValue{f: x * y}, nil
		case '/':
			return numberValue{f: x / y}, nil
		case '%':
			return numberValue{f: math.Mod(x, y)}, nil
		}
		return numberValue{f: math.Pow(x, y)}, nil
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
			return numberValue{}, errors.New("it divides by 0")
		}
		if op == '/' {
			i.Quo(a.i, b.i)
		} else {
			i.Rem(a.i, b.i)
		}
	case '^':
		switch {
		case b.i.Sign() < 0:
			return numberValue{f: math.Pow(a.float(), b.float())}, nil
		case a.i.BitLen() > 1 && (!b.i.IsInt64() || b.i.Int64()*int64(a.i.BitLen()-1) > maxBits ||
			b.i.Int64() > maxBits):
			return numberValue{}, fmt.Errorf("%v^%v is too large", a.i, b.i)
		}
		i.Exp(a.i, b.i, nil)
	}
	if i.BitLen() > maxBits {
		return numberValue{}, errors.New("a number has too many digits")
	}
	return numberValue{i: i}, nil
}
