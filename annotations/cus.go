package annotations

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/Project-HAMi/hami-amd/cumask"
)

// EncodeCUs writes the value of CUAllocatedKey, the CUs a pod holds on each
// device: {"<device id>":"0-75"}. Devices come in ascending order and the lists
// in canonical form, so that equal CUs give equal values. It refuses an empty
// device id and an empty set: a device without CUs is left out by the caller.
func EncodeCUs(cus map[string]cumask.Set) (string, error) {
	b, err := appendCUs(nil, cus)
	if err != nil {
		return "", fmt.Errorf("encode %s: %w", CUAllocatedKey, err)
	}
	if err := checkSize(string(b)); err != nil {
		return "", fmt.Errorf("encode %s: %w", CUAllocatedKey, err)
	}
	return string(b), nil
}

func appendCUs(b []byte, cus map[string]cumask.Set) ([]byte, error) {
	if len(cus) > maxMembers {
		return nil, fmt.Errorf("%d devices, want at most %d", len(cus), maxMembers)
	}
	b = append(b, '{')
	for _, device := range slices.Sorted(maps.Keys(cus)) {
		set := cus[device]
		if device == "" {
			return nil, errors.New("device id is empty")
		}
		if err := checkText("device", device); err != nil {
			return nil, err
		}
		if set.Empty() {
			return nil, fmt.Errorf("device %s: no CUs", quote(device))
		}
		b = appendString(appendKey(b, device), set.String())
	}
	return append(b, '}'), nil
}

// DecodeCUs reads the value of CUAllocatedKey. It is strict, because a value
// read wrongly frees CUs that a running container uses: a device that is there
// twice, an empty id, an empty list and a list that ROCr would not take are
// errors that name the device and the part of the list. Whether the CUs exist on
// the device is for the caller to check.
func DecodeCUs(s string) (map[string]cumask.Set, error) {
	cus := map[string]cumask.Set{}
	err := RangeCUs(s, func(device string, set cumask.Set) error {
		cus[device] = set
		return nil
	})
	if err != nil {
		return nil, err
	}
	return cus, nil
}

// RangeCUs is DecodeCUs without the map: it calls fn for each device in the order
// of the value. The whole value is checked before the first call, so a broken one
// has no effect. An error of fn ends the walk and is returned as it is. For up to
// four devices RangeCUs allocates nothing, which matters to a plugin that reads
// every pod of a node.
func RangeCUs(s string, fn func(device string, cus cumask.Set) error) error {
	if err := checkSize(s); err != nil {
		return fmt.Errorf("decode %s: %w", CUAllocatedKey, err)
	}
	var few [4]deviceCUs
	p := newScanner(s)
	all, err := p.deviceCUs(few[:0])
	if err = p.last(err); err != nil {
		return fmt.Errorf("decode %s: %w", CUAllocatedKey, err)
	}
	for i := range all {
		if err := fn(all[i].device, all[i].cus); err != nil {
			return err
		}
	}
	return nil
}

// deviceCUs is one member of a CU map.
type deviceCUs struct {
	device string
	cus    cumask.Set
}

// deviceCUs reads {"<device id>":"<CU list>"} and appends it to all.
func (p *scanner) deviceCUs(all []deviceCUs) ([]deviceCUs, error) {
	err := p.object(func(device string) error {
		if device == "" {
			return errors.New("device id is empty")
		}
		list, err := p.text()
		if err != nil {
			return fmt.Errorf("device %s: %w", quote(device), err)
		}
		cus, err := cumask.ParseSet(list)
		if err != nil {
			return fmt.Errorf("device %s: %w", quote(device), err)
		}
		all = append(all, deviceCUs{device, cus})
		return nil
	})
	return all, err
}
