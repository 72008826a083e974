package monitor

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/Project-HAMi/hami-amd/partition"
)

// sensors is what the kernel says about a GPU as a whole at this moment. What
// a part does not have or does not tell is nil.
type sensors struct {
	usedBytes    *float64 // mem_info_vram_used; of an APU mem_info_gtt_used
	totalBytes   *float64 // mem_info_vram_total; of an APU mem_info_gtt_total
	busyPercent  *float64 // gpu_busy_percent, 0 to 100
	temperatureC *float64 // hwmon tempN_input by label: edge, else junction
	powerW       *float64 // hwmon power1_average, else power1_input
}

// maxAttribute is more than the attributes read here hold.
const maxAttribute = 128

// readSensors reads the files below bus/pci/devices/<bdf>. No device node is
// opened, so that nothing here counts as a user of the GPU or of KFD. Problems
// are files that are there and cannot be read or make no sense; the other values
// are good.
//
// apu is a GPU that is part of a CPU. What it calls its VRAM is a piece of
// system memory that the BIOS set aside, and HIP's memory is GTT.
func readSensors(sysfs string, bdf partition.BDF, apu bool) (s sensors, problems []error) {
	device, err := openDevice(sysfs, bdf)
	if err != nil {
		return sensors{}, []error{fmt.Errorf("gpu %s: %w", bdf, err)}
	}
	defer device.Close()

	d := attributes{root: device}
	hwmon, dir, err := openHwmon(device)
	if err != nil {
		d.errs = append(d.errs, err)
	}
	if hwmon != nil {
		defer hwmon.Close()
		h := attributes{root: hwmon, dir: dir + "/"}
		s.temperatureC = h.temperature()
		s.powerW = scaled(h.number("power1_average", "power1_input"), 1e6)
		d.errs = append(d.errs, h.errs...)
	}
	memory := "mem_info_vram_"
	if apu {
		memory = "mem_info_gtt_"
	}
	s.usedBytes = scaled(d.number(memory+"used"), 1)
	s.totalBytes = scaled(d.number(memory+"total"), 1)
	if s.busyPercent = scaled(d.number("gpu_busy_percent"), 1); s.busyPercent != nil && *s.busyPercent > 100 {
		d.errs = append(d.errs, fmt.Errorf("gpu_busy_percent: want 0 to 100, have %g", *s.busyPercent))
		s.busyPercent = nil
	}
	for _, err := range d.errs {
		problems = append(problems, fmt.Errorf("gpu %s: %w", bdf, err))
	}
	return s, problems
}

// hasVDDNB reports whether a GPU's sensors have a voltage of that name.
func hasVDDNB(sysfs string, bdf partition.BDF) bool {
	device, err := openDevice(sysfs, bdf)
	if err != nil {
		return false
	}
	defer device.Close()
	hwmon, _, err := openHwmon(device)
	if err != nil || hwmon == nil {
		return false
	}
	defer hwmon.Close()
	label, err := readAttribute(hwmon, "in1_label")
	return err == nil && label == "vddnb"
}

// openDevice opens the directory of a PCI function, wherever the link in
// bus/pci/devices leads within sysfs.
func openDevice(sysfs string, bdf partition.BDF) (*os.Root, error) {
	root, err := os.OpenRoot(sysfs)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	return root.OpenRoot("bus/pci/devices/" + string(bdf))
}

// openHwmon opens the amdgpu sensors of a device; their number changes with
// each load of the driver. It is nil for a part without sensors, such as a
// virtual function.
func openHwmon(device *os.Root) (*os.Root, string, error) {
	f, err := device.Open("hwmon")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, "", nil
	}
	if err != nil {
		return nil, "", err
	}
	defer f.Close()
	names, err := f.Readdirnames(64)
	if err != nil && err != io.EOF {
		return nil, "", err
	}
	slices.Sort(names)
	for _, name := range names {
		if !strings.HasPrefix(name, "hwmon") {
			continue
		}
		dir := "hwmon/" + name
		hwmon, err := device.OpenRoot(dir)
		if err != nil {
			return nil, "", err
		}
		a := attributes{root: hwmon}
		if a.text("name") == "amdgpu" {
			return hwmon, dir, nil
		}
		hwmon.Close()
	}
	return nil, "", nil
}

// attributes reads small files of one directory and keeps what went wrong.
type attributes struct {
	root *os.Root
	dir  string // for messages, with a slash at its end
	errs []error
}

// text is the content of an attribute without its newline, "" if there is
// none.
func (a *attributes) text(name string) string {
	s, err := readAttribute(a.root, name)
	if err != nil && !unknown(err) {
		a.errs = append(a.errs, fmt.Errorf("%s%s: %w", a.dir, name, cause(err)))
	}
	return s
}

// number is the decimal number of the first attribute of those names that
// there is, nil if there is none. Only temperatures are ever negative.
func (a *attributes) number(names ...string) *int64 {
	for _, name := range names {
		s := a.text(name)
		if s == "" {
			continue
		}
		n, err := strconv.ParseInt(s, 10, 64)
		if err == nil && (n >= 0 || strings.HasPrefix(name, "temp")) {
			return &n
		}
		a.errs = append(a.errs, fmt.Errorf("%s%s: want a number, have %.32q", a.dir, name, s))
	}
	return nil
}

// temperature goes by the labels: which of the three sensors a part has
// differs, MI300 has no edge (smu_v13_0_6_ppt.c). Without any label the first
// is the edge.
func (a *attributes) temperature() *float64 {
	labels := make(map[string]string, 3)
	for _, sensor := range []string{"temp1", "temp2", "temp3"} {
		labels[a.text(sensor+"_label")] = sensor
	}
	for _, want := range []string{"edge", "junction"} {
		if sensor, ok := labels[want]; ok {
			if t := a.number(sensor + "_input"); t != nil {
				return scaled(t, 1e3)
			}
		}
	}
	if len(labels) == 1 && labels[""] != "" {
		return scaled(a.number("temp1_input"), 1e3)
	}
	return nil
}

// scaled is a number in the unit of which it counts so many parts: 1000 for
// thousandths.
func scaled(n *int64, parts float64) *float64 {
	if n == nil {
		return nil
	}
	v := float64(*n) / parts
	return &v
}

// unknown reports whether an error is the kernel's way of saying that a part
// does not have a sensor, or cannot read it right now: amdgpu answers EPERM
// while a GPU is in reset or suspended, EOPNOTSUPP or EINVAL where the firmware
// does not implement it.
func unknown(err error) bool {
	for _, e := range []error{fs.ErrNotExist, syscall.EPERM, syscall.EOPNOTSUPP, syscall.EINVAL} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

func readAttribute(root *os.Root, name string) (string, error) {
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return "", err
	}
	defer f.Close()
	var buf [maxAttribute + 1]byte
	n, err := f.Read(buf[:])
	switch {
	case err != nil && err != io.EOF:
		return "", err
	case n > maxAttribute:
		return "", fmt.Errorf("want at most %d bytes, have more", maxAttribute)
	}
	return strings.TrimSuffix(string(buf[:n]), "\n"), nil
}

// cause takes the path out of an error that is named otherwise.
func cause(err error) error {
	if pe, ok := err.(*fs.PathError); ok {
		return pe.Err
	}
	return err
}
