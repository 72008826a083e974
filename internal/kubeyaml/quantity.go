package kubeyaml

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// maxExponent is how many digits the exponent of a quantity may have, and
// maxMantissa how many characters the number before it.
const (
	maxExponent = 3
	maxMantissa = 64
)

// checkQuantities refuses an object whose resources hold a number that takes
// longer to read than anybody waits: resource.Quantity writes out all digits of
// 1e-999999999.
func checkQuantities(raw []byte) error {
	if !anyLongNumber(raw) {
		return nil
	}
	var tree any
	numbers := json.NewDecoder(bytes.NewReader(raw))
	numbers.UseNumber()
	if err := numbers.Decode(&tree); err != nil {
		return err
	}
	return findQuantity("", tree)
}

// quantities are the members of a pod or node that hold quantities, by name or
// alone.
var quantities = map[string]bool{
	"limits": true, "requests": true, "overhead": true, "capacity": true, "allocatable": true,
	"allocatedResources": true, "sizeLimit": true, "divisor": true, "storage": true,
}

func findQuantity(name string, value any) error {
	switch v := value.(type) {
	case []any:
		for _, element := range v {
			if err := findQuantity("", element); err != nil {
				return err
			}
		}
	case map[string]any:
		for key, member := range v {
			if text, ok := scalar(member); ok && (quantities[name] || quantities[key]) && longNumber(text) {
				return fmt.Errorf("%s: quantity %.32q: want at most %d digits, and %d in an exponent", key, text, maxMantissa, maxExponent)
			}
			if err := findQuantity(key, member); err != nil {
				return err
			}
		}
	}
	return nil
}

func scalar(value any) (text string, ok bool) {
	switch v := value.(type) {
	case string:
		return v, true
	case json.Number:
		return v.String(), true
	}
	return "", false
}

// anyLongNumber looks for text that longNumber refuses anywhere in an object,
// and for text that escapes may hide.
func anyLongNumber(raw []byte) bool {
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case c == '"':
			begin := i + 1
			for i = begin; i < len(raw) && raw[i] != '"'; i++ {
				if raw[i] == '\\' {
					i++
				}
			}
			text := raw[begin:min(i, len(raw))]
			if n := mantissa(text); n < len(text) && text[n] == '\\' || longNumber(text) {
				return true
			}
		case c == '-' || c >= '0' && c <= '9':
			begin := i
			for i < len(raw) && strings.IndexByte("+-.0123456789eE", raw[i]) >= 0 {
				i++
			}
			if longNumber(raw[begin:i]) {
				return true
			}
			i--
		}
	}
	return false
}

// longNumber reports whether text reads as a quantity with too many digits.
func longNumber[T string | []byte](text T) bool {
	n := mantissa(text)
	if n == 0 {
		return false
	}
	if n < len(text) && (text[n] == 'e' || text[n] == 'E') {
		if digits := strings.TrimLeft(string(text[n+1:min(len(text), n+16)]), "+-"); mantissa(digits) == len(digits) && len(digits) > maxExponent {
			return true
		}
	}
	return n > maxMantissa
}

// mantissa returns how many bytes at the start of text can be of a number.
func mantissa[T string | []byte](text T) int {
	n := 0
	for n < len(text) && strings.IndexByte("+-.0123456789", text[n]) >= 0 {
		n++
	}
	return n
}
