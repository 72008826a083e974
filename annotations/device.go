package annotations

import (
	"errors"
	"fmt"
	"strings"

	"github.com/Project-HAMi/hami-amd/cumask"
)

// A Device is one schedulable GPU or partition of a node, an element of the
// value of NodeRegisterKey. Fields and JSON names are those of HAMi's
// device.DeviceInfo.
type Device struct {
	// ID identifies the device across the cluster. It is what grants and CU maps
	// name, never a PCI address, and contains none of , : ;
	ID string `json:"id,omitempty"`
	// Index is the device's place on the node, from 0.
	Index uint `json:"index,omitempty"`
	// Count is how many containers may share the device.
	Count int32 `json:"count,omitempty"`
	// Devmem is the VRAM the scheduler may give out, in MiB. 0: unknown.
	Devmem int32 `json:"devmem,omitempty"`
	// Devcore is the number of compute units.
	Devcore int32 `json:"devcore,omitempty"`
	// Type is the product name, such as "AMD Instinct MI300X". HAMi gives AMD
	// pods only devices whose type has "AMD" in it: see SanitizeType.
	Type string `json:"type,omitempty"`
	// Numa is the NUMA node. Where the kernel knows none this module writes 0;
	// AMD's plugin passes on the -1 of numa_node, the one negative number read.
	Numa int `json:"numa,omitempty"`
	// Mode is "" for a device that may be shared and the compute partition type
	// ("spx", "qpx", ...) for one that is always granted whole.
	Mode string `json:"mode,omitempty"`
	// Health is false for a device that gets no new pods. HAMi leaves a false one
	// out; here it is always written.
	Health bool `json:"health"`
	// CustomInfo is what HAMi itself does not know about a device.
	CustomInfo CustomInfo `json:"custominfo,omitzero"`
	// Unknown holds members this package does not know.
	Unknown []Member `json:"-"`
}

// ErrNotDeviceList is in every error of DecodeDevices, a value in HAMi's older
// comma-separated format included. The devices known before should be kept: the
// node has not said that it has none.
var ErrNotDeviceList = errors.New("not a JSON device list")

// deletedPrefix starts the value that MarkAnnotationsToDelete of HAMi's older
// util package, which AMD's plugin still has a copy of, writes in place of a
// device list that is no longer true: "Deleted_2026-05-01 10:00:00".
const deletedPrefix = "Deleted_"

// Geometry is how the device's compute units are laid out as far as the register
// annotation says it: both sides round a request to CUs with it.
func (d Device) Geometry() cumask.Geometry {
	return cumask.Geometry{
		CUs:       int(d.Devcore),
		XCCs:      d.CustomInfo.NumXCC,
		CUsPerWGP: d.CustomInfo.CUsPerWGP,
	}
}

// EncodeDevices writes the value of NodeRegisterKey: HAMi's members in HAMi's
// order, then custominfo, which HAMi's own MarshalNodeDevices drops. As in HAMi
// a zero value is left out, except for health. No devices give "[]".
//
// It refuses what DecodeDevices refuses: an id that is empty, repeated or has a
// separator in it, a type with a separator in it, a negative number, and a value
// longer than MaxBytes.
func EncodeDevices(devices []Device) (string, error) {
	if len(devices) > maxDevices {
		return "", fmt.Errorf("encode %s: %d devices, want at most %d", NodeRegisterKey, len(devices), maxDevices)
	}
	b := make([]byte, 0, 2+1024*len(devices))
	ids := make(map[string]bool, len(devices))
	b = append(b, '[')
	for i := range devices {
		d := &devices[i]
		if i > 0 {
			b = append(b, ',')
		}
		var err error
		if b, err = d.append(b); err == nil && ids[d.ID] {
			err = errors.New("id is there twice")
		}
		if err != nil {
			return "", fmt.Errorf("encode %s: device %d (%s): %w", NodeRegisterKey, i, quote(d.ID), err)
		}
		ids[d.ID] = true
	}
	b = append(b, ']')
	if len(b) > MaxBytes {
		return "", fmt.Errorf("encode %s: %d bytes long, want at most %d", NodeRegisterKey, len(b), MaxBytes)
	}
	return string(b), nil
}

// check refuses a device that must not be written.
func (d *Device) check() error {
	if err := checkName("id", d.ID); err != nil {
		return err
	}
	if hasSeparator(d.Type) {
		return checkName("type", d.Type)
	}
	for _, f := range []struct{ name, value string }{{"id", d.ID}, {"type", d.Type}, {"mode", d.Mode}} {
		if err := checkText(f.name, f.value); err != nil {
			return err
		}
	}
	for _, f := range []struct {
		name        string
		value, from int64
	}{
		{"index", int64(min(d.Index, maxInt32+1)), 0},
		{"count", int64(d.Count), 0},
		{"devmem", int64(d.Devmem), 0},
		{"devcore", int64(d.Devcore), 0},
		{"numa", int64(d.Numa), -1},
	} {
		if f.value < f.from || f.value > maxInt32 {
			return fmt.Errorf("%s is %d, want %d to %d", f.name, f.value, f.from, maxInt32)
		}
	}
	return nil
}

// append appends the device as a JSON object.
func (d *Device) append(b []byte) ([]byte, error) {
	if err := d.check(); err != nil {
		return nil, err
	}
	b = append(b, '{')
	b = appendText(b, "id", d.ID)
	b = appendNumber(b, "index", int64(d.Index))
	b = appendNumber(b, "count", int64(d.Count))
	b = appendNumber(b, "devmem", int64(d.Devmem))
	b = appendNumber(b, "devcore", int64(d.Devcore))
	b = appendText(b, "type", d.Type)
	b = appendNumber(b, "numa", int64(d.Numa))
	b = appendText(b, "mode", d.Mode)
	b = appendKey(b, "health")
	if d.Health {
		b = append(b, "true"...)
	} else {
		b = append(b, "false"...)
	}
	var err error
	if !d.CustomInfo.empty() {
		if b, err = d.CustomInfo.append(appendKey(b, "custominfo")); err != nil {
			return nil, fmt.Errorf("custominfo: %w", err)
		}
	}
	if b, err = appendMembers(b, d.Unknown, func(name string) bool { return deviceField(name) != "" }); err != nil {
		return nil, err
	}
	return append(b, '}'), nil
}

// DecodeDevices reads the value of NodeRegisterKey. "", "null", "[]" and the
// mark of a list that was taken back ("Deleted_...") mean that the node has no
// devices: nil and no error. Every error wraps ErrNotDeviceList.
//
// Missing members are zero, so a device without health is unhealthy, as in HAMi.
// Unlike HAMi it refuses: null in place of a device or of a member other than
// custominfo, a member that is there twice or is spelled in another case (HAMi
// would take "ID" for "id"), an id that is empty, repeated or has a separator in
// it, a type with a separator in it, a number that is negative or beyond int32
// (numa may be -1), text that is not UTF-8.
func DecodeDevices(s string) ([]Device, error) {
	devices, err := decodeDevices(s)
	if err != nil {
		return nil, fmt.Errorf("decode %s: %w: %w", NodeRegisterKey, ErrNotDeviceList, err)
	}
	return devices, nil
}

func decodeDevices(s string) ([]Device, error) {
	if err := checkSize(s); err != nil {
		return nil, err
	}
	if s == "" || strings.HasPrefix(s, deletedPrefix) {
		return nil, nil
	}
	p := newScanner(s)
	if p.peek() == 'n' {
		return nil, p.last(p.skip(0))
	}
	devices := make([]Device, 0, 8)
	ids := make(map[string]bool, 8)
	err := p.array(maxDevices, func(i int) error {
		devices = append(devices, Device{})
		d := &devices[i]
		err := d.decode(&p)
		if err == nil && ids[d.ID] {
			err = fmt.Errorf("id %s is there twice", quote(d.ID))
		}
		if err != nil {
			return fmt.Errorf("device %d: %w", i, err)
		}
		ids[d.ID] = true
		return nil
	})
	if err = p.last(err); err != nil || len(devices) == 0 {
		return nil, err
	}
	return devices, nil
}

// decode reads one element of the list.
func (d *Device) decode(p *scanner) error {
	err := p.object(func(name string) error {
		if err := d.decodeMember(p, name); err != nil {
			return fmt.Errorf("%s: %w", quoteName(name), err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := checkName("id", d.ID); err != nil {
		return err
	}
	if hasSeparator(d.Type) {
		return checkName("type", d.Type)
	}
	return nil
}

func (d *Device) decodeMember(p *scanner, name string) (err error) {
	switch name {
	case "id":
		d.ID, err = p.text()
	case "index":
		var n int32
		n, err = p.count()
		d.Index = uint(n)
	case "count":
		d.Count, err = p.count()
	case "devmem":
		d.Devmem, err = p.count()
	case "devcore":
		d.Devcore, err = p.count()
	case "type":
		d.Type, err = p.text()
	case "numa":
		d.Numa, err = p.numaNode()
	case "mode":
		d.Mode, err = p.text()
	case "health":
		d.Health, err = p.boolean()
	case "custominfo":
		if p.peek() == 'n' {
			return p.skip(0)
		}
		return d.CustomInfo.decode(p)
	default:
		if field := deviceField(name); field != "" {
			return fmt.Errorf("want it spelled %q", field)
		}
		d.Unknown, err = p.keep(d.Unknown, name)
	}
	return err
}

// numaNode reads a NUMA node, -1 when there is none.
func (p *scanner) numaNode() (int, error) {
	if p.peek() == '-' && strings.HasPrefix(p.s[p.i:], "-1") {
		text, err := p.number()
		if err != nil || text == "-1" {
			return -1, err
		}
		return 0, fmt.Errorf("want -1 or a whole number, found %s", quote(text))
	}
	n, err := p.count()
	return int(n), err
}

// deviceField returns the member that encoding/json, and so HAMi, would take
// name for: it ignores case.
func deviceField(name string) string {
	for _, field := range []string{"id", "index", "count", "devmem", "devcore", "type", "numa", "mode", "health", "custominfo"} {
		if strings.EqualFold(field, name) {
			return field
		}
	}
	return ""
}

// MarshalJSON writes the device as EncodeDevices does.
func (d Device) MarshalJSON() ([]byte, error) { return d.append(nil) }

// UnmarshalJSON reads one element as DecodeDevices does.
func (d *Device) UnmarshalJSON(data []byte) error {
	var read Device
	p := newScanner(string(data))
	if err := p.last(read.decode(&p)); err != nil {
		return err
	}
	*d = read
	return nil
}
