package cumask

import (
	"slices"
	"strconv"
	"strings"
)

// rocrMasks is a model of how ROCr reads HSA_CU_MASK (flag.cpp), accidents
// included: what our parsers accept must mean the same there. It knows 1,024
// GPUs of 1,024 CUs each.
func rocrMasks(value string) map[int]Set {
	masks := map[int]Set{}
	value = strings.ToUpper(strings.Join(strings.FieldsFunc(value, func(r rune) bool {
		return strings.ContainsRune(" \t\n\v\f\r", r)
	}), ""))
	for _, set := range rocrSplit(value, ";") {
		parts := rocrSplit(set, ":")
		if len(parts) != 2 {
			return masks
		}
		var cus Set
		if digits, hex := strings.CutPrefix(parts[1], "0X"); hex {
			for i := range digits {
				v, err := strconv.ParseUint(digits[len(digits)-1-i:len(digits)-i], 16, 4)
				if err != nil {
					return masks
				}
				for b := range 4 {
					if v>>b&1 != 0 {
						cus = cus.Union(Of(4*i + b)) // drops what is beyond
					}
				}
			}
		} else {
			list, ok := rocrList(parts[1])
			if !ok {
				return masks
			}
			cus = Of(list...)
		}
		gpus, ok := rocrList(parts[0])
		if !ok || len(gpus) == 0 || cus.Empty() {
			return masks
		}
		for _, gpu := range gpus {
			if _, again := masks[gpu]; again {
				return masks
			}
		}
		for _, gpu := range gpus {
			masks[gpu] = cus
		}
	}
	return masks
}

// rocrSplit gives no empty part at the end.
func rocrSplit(s, sep string) []string {
	parts := strings.Split(s, sep)
	if last := len(parts) - 1; parts[last] == "" {
		parts = parts[:last]
	}
	return parts
}

func rocrList(s string) (ids []int, ok bool) {
	for _, item := range rocrSplit(s, ",") {
		ends := rocrSplit(item, "-")
		if len(ends) == 0 || len(ends) > 2 { // none at all is undefined behaviour
			return nil, false
		}
		var n [2]uint64
		for i, end := range ends {
			v, err := strconv.ParseUint(strings.TrimPrefix(end, "+"), 10, 64)
			if err != nil && end != "" {
				return nil, false
			}
			n[i] = v
		}
		if len(ends) == 1 {
			n[1] = n[0]
		}
		if n[1] < n[0] {
			return nil, false
		}
		for id := n[0]; id <= min(n[1], MaxCUs-1); id++ {
			ids = append(ids, int(id))
		}
	}
	slices.Sort(ids)
	return ids, len(slices.Compact(slices.Clone(ids))) == len(ids)
}
