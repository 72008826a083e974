package partition

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	maxProductName = 64
	maxIDsFile     = 1 << 20 // amdgpu.ids has about 20 KiB
	maxIDs         = 10_000
)

// productName is the market name of a GPU: the FRU's product_name, then
// amdgpu.ids by device and revision, then this package's table, then a name
// made of the device id. KFD's name is "ip discovery" on all current parts and
// no product name.
func productName(fru string, ids productIDs, device uint16, revision *uint8, cus int) string {
	if name := cleanName(fru); name != "" {
		return name
	}
	if revision != nil {
		if name := ids[productID{device, *revision}]; name != "" {
			return name
		}
	}
	if name := tableName(device, revision, cus); name != "" {
		return name
	}
	return fmt.Sprintf("AMD GPU 0x%04x", device)
}

// cleanName keeps what can be shown of a name from outside: one line, single
// blanks, at most 64 bytes. FRU texts are written by board makers.
func cleanName(s string) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case r == utf8.RuneError || !unicode.IsPrint(r) && !unicode.IsSpace(r):
			return -1
		case unicode.IsSpace(r):
			return ' '
		}
		return r
	}, s)
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > maxProductName {
		s = s[:maxProductName]
		for !utf8.ValidString(s) {
			s = s[:len(s)-1]
		}
	}
	return strings.TrimSpace(s)
}

// productID is what amdgpu.ids is keyed by: the same device with another
// revision is another product.
type productID struct {
	device   uint16
	revision uint8
}

type productIDs map[productID]string

// readProductIDs reads a host's amdgpu.ids, /usr/share/libdrm/amdgpu.ids.
func readProductIDs(path string) (productIDs, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxIDsFile+1))
	if err != nil {
		return nil, err
	}
	if len(b) > maxIDsFile {
		return nil, fmt.Errorf("%s: more than %d bytes", path, maxIDsFile)
	}
	return parseProductIDs(b), nil
}

// parseProductIDs reads libdrm's format: "#" comments, a version line, then
// "DEVICE, REVISION, NAME" with hex numbers without 0x and any blanks after
// the commas. As in libdrm, other lines are passed over and the first of
// several names for one product counts.
func parseProductIDs(b []byte) productIDs {
	ids := productIDs{}
	lines := bufio.NewScanner(bytes.NewReader(b))
	for lines.Scan() && len(ids) < maxIDs {
		line := lines.Text()
		if strings.HasPrefix(line, "#") {
			continue
		}
		f := strings.SplitN(line, ",", 3)
		if len(f) != 3 {
			continue
		}
		device, err1 := strconv.ParseUint(strings.TrimSpace(f[0]), 16, 16)
		revision, err2 := strconv.ParseUint(strings.TrimSpace(f[1]), 16, 8)
		id, name := productID{uint16(device), uint8(revision)}, cleanName(f[2])
		if err1 != nil || err2 != nil || name == "" || ids[id] != "" {
			continue
		}
		ids[id] = name
	}
	return ids
}

// tableName looks the product up in this package's table.
func tableName(device uint16, revision *uint8, cus int) string {
	name := ""
	for _, p := range productNames {
		if p.device != device {
			continue
		}
		switch {
		case p.cus != 0 && p.cus == cus, p.revision != anyRevision && revision != nil && p.revision == int(*revision):
			return p.name
		case p.cus == 0 && p.revision == anyRevision && name == "":
			name = p.name
		}
	}
	return name
}
