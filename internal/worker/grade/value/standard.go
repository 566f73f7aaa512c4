package value

import (
	"errors"
	"math"
	"math/big"
	"regexp"
	"strconv"
	"strings"
)

// standard returns an object of a well-known type, constructed from args, in a form that is equal
// for equal objects. A range is its items, a time with a zone its moment, a Decimal or Fraction its
// number, and a dict of collections a dict. If args are invalid, it keeps them; the object then
// equals only one with the same args.
func standard(name string, args []Value) (Value, error) {
	v := Value{Kind: Std, Text: name, items: args, args: args}
	module, short, _ := strings.Cut(name, ".")
	switch name {
	case "fractions.Fraction":
		v.number = fraction(args)
	case "decimal.Decimal":
		if len(args) == 1 && args[0].Kind == Str {
			v.number, v.items = decimalNumber(args[0].Text)
			v.real = infinities[strings.ToLower(args[0].Text)]
		}
	case "builtins.range":
		v.items = rangeItems(args)
	case "datetime.date", "datetime.time", "datetime.datetime":
		v.items = moment(short, args)
	case "datetime.timedelta":
		v.items = duration(args)
	case "datetime.timezone":
		v.items = args[:min(len(args), 1)] // the name of a zone is irrelevant
	case "collections.deque":
		v.items = args[:min(len(args), 1)] // the maximum length is irrelevant
	case "collections.OrderedDict", "collections.Counter", "collections.defaultdict":
		if n := len(args); n > 0 && args[n-1].Kind == Dict {
			return args[n-1], nil
		}
		return Value{}, errors.New(name + " takes a dict")
	default:
		if module == "" || short == "" {
			return Value{}, errors.New("a standard type without a module")
		}
	}
	return v, nil
}

// ints returns args as integers. ok is false unless all are integers in range.
func ints(args []Value) (out []int64, ok bool) {
	for _, a := range args {
		if a.Kind != Int || !a.whole.IsInt64() {
			return nil, false
		}
		out = append(out, a.whole.Int64())
	}
	return out, true
}

func whole(n int64) Value { return Value{Kind: Int, whole: big.NewInt(n)} }

// rangeItems returns the identity of a range: its length, first item and step.
func rangeItems(args []Value) []Value {
	n := make([]*big.Int, 0, 3)
	for _, a := range args {
		if a.Kind != Int {
			return args
		}
		n = append(n, a.whole)
	}
	start, step := new(big.Int), big.NewInt(1)
	switch len(n) {
	case 1:
		n = []*big.Int{start, n[0], step}
	case 2:
		n = append(n, step)
	case 3:
	default:
		return args
	}
	start, stop, step := n[0], n[1], n[2]
	if step.Sign() == 0 {
		return args
	}
	// The length is (stop-start) / step, rounded up.
	length, rest := new(big.Int).QuoRem(new(big.Int).Sub(stop, start), step, new(big.Int))
	if rest.Sign() != 0 && length.Sign() >= 0 && rest.Sign() == step.Sign() {
		length.Add(length, big.NewInt(1))
	}
	switch {
	case length.Sign() <= 0:
		return []Value{whole(0)}
	case length.IsInt64() && length.Int64() == 1:
		return []Value{whole(1), {Kind: Int, whole: start}}
	}
	return []Value{{Kind: Int, whole: length}, {Kind: Int, whole: start}, {Kind: Int, whole: step}}
}

// duration returns a timedelta in microseconds.
func duration(args []Value) []Value {
	n, ok := ints(args)
	if !ok || len(n) > 3 {
		return args
	}
	n = append(n, 0, 0, 0)[:3]
	const day, second = 86_400_000_000, 1_000_000
	if n[0] > 1e9 || n[0] < -1e9 || n[1] > 1e12 || n[1] < -1e12 || n[2] > 1e18 || n[2] < -1e18 {
		return args
	}
	total := big.NewInt(n[0])
	total.Mul(total, big.NewInt(day)).Add(total, big.NewInt(n[1]*second)).Add(total, big.NewInt(n[2]))
	return []Value{{Kind: Int, whole: total}}
}

// moment returns a date or time without its fold. With a zone, it is converted to microseconds in
// UTC.
func moment(name string, args []Value) []Value {
	parts := map[string]int{"date": 3, "time": 4, "datetime": 7}[name]
	if len(args) <= parts {
		return args
	}
	zone := args[parts]
	n, ok := ints(args[:parts])
	switch {
	case !ok || len(args) > parts+2:
		return args
	case zone.Kind == None:
		return args[:parts]
	case zone.Kind != Std || zone.Text != "datetime.timezone" || len(zone.items) != 1 || len(zone.items[0].items) != 1:
		return args
	}
	offset, ok := ints(zone.items[0].items)
	if !ok {
		return args
	}
	days := int64(0)
	if name == "datetime" {
		days, n = civilDays(n[0], n[1], n[2]), n[3:]
	}
	at := (((days*24+n[0])*60+n[1])*60+n[2])*1_000_000 + n[3] - offset[0]
	return []Value{{Kind: Str, Text: "UTC"}, whole(at)}
}

// civilDays returns the number of days between a date and the first of March of the year 0.
func civilDays(year, month, day int64) int64 {
	if month <= 2 {
		year, month = year-1, month+12
	}
	return 365*year + year/4 - year/100 + year/400 + (153*(month-3)+2)/5 + day - 1
}

// maxRatBits limits the parts of a fraction that is compared as a number, because reduction takes
// quadratic time.
const maxRatBits = 1 << 16

// fraction returns the number of a Fraction, or nil for invalid args.
func fraction(args []Value) *big.Rat {
	var parts [2]*big.Int
	switch {
	case len(args) == 1 && args[0].Kind == Str && len(args[0].Text) < maxRatBits/4:
		n, d, found := strings.Cut(args[0].Text, "/")
		if !found {
			d = "1"
		}
		var ok1, ok2 bool
		parts[0], ok1 = new(big.Int).SetString(n, 10)
		parts[1], ok2 = new(big.Int).SetString(d, 10)
		if !ok1 || !ok2 {
			return nil
		}
	case len(args) == 2 && args[0].Kind == Int && args[1].Kind == Int:
		parts = [2]*big.Int{args[0].whole, args[1].whole}
	default:
		return nil
	}
	if parts[1].Sign() == 0 || parts[0].BitLen() > maxRatBits || parts[1].BitLen() > maxRatBits {
		return nil
	}
	return new(big.Rat).SetFrac(parts[0], parts[1])
}

var infinities = map[string]float64{"infinity": math.Inf(1), "inf": math.Inf(1), "-infinity": math.Inf(-1), "-inf": math.Inf(-1)}

var decimals = regexp.MustCompile(`^([+-]?)([0-9]*)(?:\.([0-9]*))?(?:[eE]([+-]?[0-9]{1,18}))?$`)

// maxExponent limits the exponent of a Decimal that is compared with other numbers, because a few
// bytes could encode a huge one.
const maxExponent = 400

// decimalNumber returns the number of a Decimal, or nil for NaN, infinity and huge exponents. The
// items are the sign, digits and exponent, or the text. They are used to compare Decimals without a
// number.
func decimalNumber(text string) (*big.Rat, []Value) {
	m := decimals.FindStringSubmatch(text)
	if m == nil || len(m[2])+len(m[3]) == 0 {
		return nil, []Value{{Kind: Str, Text: strings.ToLower(text)}}
	}
	exponent, _ := strconv.ParseInt(m[4], 10, 64)
	exponent -= int64(len(m[3]))
	digits := strings.TrimLeft(m[2]+m[3], "0")
	short := strings.TrimRight(digits, "0")
	exponent += int64(len(digits) - len(short))
	if short == "" {
		return new(big.Rat), nil
	}
	sign := strings.TrimPrefix(m[1], "+")
	if exponent < -maxExponent || exponent > maxExponent || len(short) > maxRatBits/4 {
		return nil, []Value{{Kind: Str, Text: sign + short}, whole(exponent)}
	}
	n, _ := new(big.Int).SetString(sign+short, 10)
	power := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(math.Abs(float64(exponent)))), nil)
	if exponent < 0 {
		return new(big.Rat).SetFrac(n, power), nil
	}
	return new(big.Rat).SetInt(n.Mul(n, power)), nil
}
