package partition

import (
	"fmt"
	"strconv"
	"strings"
)

// AMD SMI's UUID is made of a GPU's serial number and PCI device id, so that
// it can be derived without the library (amdsmi, amd_smi_gpu_device.cc and
// amd_smi_uuid.cc). With serial S and device id D:
//
//	SSffDDDD-0000-1000-80SS-SSSSSSSSSSSS
//	│ │         │    │  └ S bits 55:48, then 47:0
//	│ │         │    └ the variant of RFC 4122, fixed
//	│ │         └ its version 1, fixed; the time is 0
//	│ └ ff for the whole function, always, then D
//	└ S bits 63:56

// FormatUUID derives the AMD SMI UUID of the GPU with the given serial number
// (unique_id of its PCI function) and PCI device id. A virtual function has
// its own device id. Parts without a serial number, 0, share one UUID per
// device id.
func FormatUUID(serial uint64, device uint16) string {
	return fmt.Sprintf("%02xff%04x-0000-1000-80%02x-%012x",
		serial>>56, device, serial>>48&0xff, serial&0xffff_ffff_ffff)
}

// ParseUUID takes an AMD SMI UUID apart. It accepts exactly what FormatUUID
// produces.
func ParseUUID(s string) (serial uint64, device uint16, err error) {
	const form = "00ff0000-0000-1000-8000-000000000000"
	refuse := func() (uint64, uint16, error) {
		return 0, 0, fmt.Errorf("gpu uuid %.64q: want the form of %q", s, FormatUUID(0x8e1bb56457addd1b, 0x74b5))
	}
	if len(s) != len(form) || s[2:4] != "ff" || s[8:21] != "-0000-1000-80" || s[23] != '-' || strings.ToLower(s) != s {
		return refuse()
	}
	s63, err1 := strconv.ParseUint(s[0:2], 16, 8)
	dev, err2 := strconv.ParseUint(s[4:8], 16, 16)
	s55, err3 := strconv.ParseUint(s[21:23], 16, 8)
	s47, err4 := strconv.ParseUint(s[24:36], 16, 48)
	if err1 != nil || err2 != nil || err3 != nil || err4 != nil {
		return refuse()
	}
	return s63<<56 | s55<<48 | s47, uint16(dev), nil
}

// UUID is the AMD SMI UUID of the whole GPU: the same in every mode and after
// every reboot. It identifies the GPU only if UniqueID is not 0.
func (g GPU) UUID() string { return FormatUUID(g.UniqueID, g.DeviceID) }

// rocrID is the name ROCr gives to an agent with the given unique id
// (ROCR-Runtime, GpuAgent's HSA_AMD_AGENT_INFO_UUID). ROCr's name for 0,
// "GPU-XX", addresses nothing.
func rocrID(id uint64) string {
	if id == 0 {
		return ""
	}
	return fmt.Sprintf("GPU-%016x", id)
}
