package annotations

import (
	"errors"
	"fmt"
	"math"
)

// CustomInfo is the custominfo member of a Device, in the shapes the AMD device
// plugin writes. A zero field means that the member is absent. A member whose
// JSON type is another one is kept in Unknown as if this package did not know
// it; a number that is negative, not whole or beyond int32 is an error.
type CustomInfo struct {
	// PCIBDF (pciBDF) is the PCI address "0000:83:00.0", of the parent GPU for a
	// partition.
	PCIBDF string
	// CUsPerWGP (cuPerWGP) is how many CUs form a work group processor and can be
	// enabled only together: 2 on RDNA. 0 and 1: CUs are independent.
	CUsPerWGP int
	// NumXCC (numXCC) is the number of accelerator complex dies (XCCs) behind the
	// device; each needs an enabled CU. 0 means 1.
	NumXCC int
	// ComputeQueues (computeQueues) is the number of compute queues.
	ComputeQueues int
	// XGMIPeers (xgmiPeers) lists the PCI addresses of the GPUs reached over XGMI.
	// nil: absent; empty: there are none.
	XGMIPeers []string
	// PartitionProfile (partitionProfile) is the current compute and memory
	// partition, such as "spx_nps1".
	PartitionProfile string
	// PartitionProfiles (partitionProfiles) lists what the GPU can be set to.
	PartitionProfiles []PartitionProfile
	// Unknown holds all other members.
	Unknown []Member
}

// A PartitionProfile is one accelerator partition profile of a GPU, in the terms
// of AMD SMI (amdsmi_accelerator_partition_profile_t). All five members are
// always written.
type PartitionProfile struct {
	// ProfileIndex is the number by which the profile is chosen.
	ProfileIndex int
	// Type is the compute partition type: SPX, DPX, TPX, QPX or CPX.
	Type string
	// MemoryCaps lists the memory partition modes it works with: "NPS1,NPS4".
	MemoryCaps string
	// NumPartitions is how many partitions the GPU then has.
	NumPartitions int
	// XCCPerPartition is how many XCCs each of them has. 0: not known.
	XCCPerPartition int
	// Unknown holds all other members.
	Unknown []Member
}

const maxInt32 = math.MaxInt32

// empty reports whether there is nothing to write.
func (c *CustomInfo) empty() bool {
	return c.PCIBDF == "" && c.CUsPerWGP == 0 && c.NumXCC == 0 && c.ComputeQueues == 0 && c.XGMIPeers == nil &&
		c.PartitionProfile == "" && c.PartitionProfiles == nil && len(c.Unknown) == 0
}

// append appends the members in alphabetical order, which is how the map of
// other AMD plugins comes out, then those it does not know.
func (c *CustomInfo) append(b []byte) ([]byte, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	b = append(b, '{')
	b = appendNumber(b, "computeQueues", int64(c.ComputeQueues))
	b = appendNumber(b, "cuPerWGP", int64(c.CUsPerWGP))
	b = appendNumber(b, "numXCC", int64(c.NumXCC))
	b = appendText(b, "partitionProfile", c.PartitionProfile)
	if c.PartitionProfiles != nil {
		b = append(appendKey(b, "partitionProfiles"), '[')
		for i := range c.PartitionProfiles {
			if i > 0 {
				b = append(b, ',')
			}
			var err error
			if b, err = c.PartitionProfiles[i].append(b); err != nil {
				return nil, fmt.Errorf("partitionProfiles: element %d: %w", i, err)
			}
		}
		b = append(b, ']')
	}
	b = appendText(b, "pciBDF", c.PCIBDF)
	if c.XGMIPeers != nil {
		b = append(appendKey(b, "xgmiPeers"), '[')
		for i, peer := range c.XGMIPeers {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendString(b, peer)
		}
		b = append(b, ']')
	}
	b, err := appendMembers(b, c.Unknown, c.has)
	if err != nil {
		return nil, err
	}
	return append(b, '}'), nil
}

// has reports whether a member is set in its own field.
func (c *CustomInfo) has(name string) bool {
	switch name {
	case "computeQueues":
		return c.ComputeQueues != 0
	case "cuPerWGP":
		return c.CUsPerWGP != 0
	case "numXCC":
		return c.NumXCC != 0
	case "partitionProfile":
		return c.PartitionProfile != ""
	case "partitionProfiles":
		return c.PartitionProfiles != nil
	case "pciBDF":
		return c.PCIBDF != ""
	case "xgmiPeers":
		return c.XGMIPeers != nil
	}
	return false
}

func (c *CustomInfo) check() error {
	if err := checkCount("computeQueues", c.ComputeQueues); err != nil {
		return err
	}
	if err := checkCount("cuPerWGP", c.CUsPerWGP); err != nil {
		return err
	}
	if err := checkCount("numXCC", c.NumXCC); err != nil {
		return err
	}
	if err := checkText("pciBDF", c.PCIBDF); err != nil {
		return err
	}
	if len(c.XGMIPeers) > maxMembers || len(c.PartitionProfiles) > maxMembers {
		return fmt.Errorf("%d xgmiPeers and %d partitionProfiles, want at most %d of each",
			len(c.XGMIPeers), len(c.PartitionProfiles), maxMembers)
	}
	for _, peer := range c.XGMIPeers {
		if err := checkText("xgmiPeers", peer); err != nil {
			return err
		}
	}
	return checkText("partitionProfile", c.PartitionProfile)
}

func checkCount(name string, n int) error {
	if n < 0 || n > maxInt32 {
		return fmt.Errorf("%s is %d, want 0 to %d", name, n, maxInt32)
	}
	return nil
}

func (c *CustomInfo) decode(p *scanner) error {
	return p.object(func(name string) error {
		start := p.i
		err := c.decodeMember(p, name)
		if errors.Is(err, errOtherShape) {
			p.i = start
			c.Unknown, err = p.keep(c.Unknown, name)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", quoteName(name), err)
		}
		return nil
	})
}

func (c *CustomInfo) decodeMember(p *scanner, name string) (err error) {
	switch name {
	case "pciBDF":
		c.PCIBDF, err = p.ifText()
	case "cuPerWGP":
		c.CUsPerWGP, err = p.ifCount()
	case "numXCC":
		c.NumXCC, err = p.ifCount()
	case "computeQueues":
		c.ComputeQueues, err = p.ifCount()
	case "partitionProfile":
		c.PartitionProfile, err = p.ifText()
	case "xgmiPeers":
		c.XGMIPeers, err = decodePeers(p)
	case "partitionProfiles":
		c.PartitionProfiles, err = decodeProfiles(p)
	default:
		return errOtherShape
	}
	return err
}

// ifText reads a string, errOtherShape if the value is another one.
func (p *scanner) ifText() (string, error) {
	if p.peek() != '"' {
		return "", errOtherShape
	}
	return p.str("a string")
}

// ifCount reads a whole number, errOtherShape if the value is no number.
func (p *scanner) ifCount() (int, error) {
	if c := p.peek(); c != '-' && (c < '0' || c > '9') {
		return 0, errOtherShape
	}
	n, err := p.count()
	return int(n), err
}

// decodePeers reads a list of strings.
func decodePeers(p *scanner) ([]string, error) {
	if p.peek() != '[' {
		return nil, errOtherShape
	}
	peers := make([]string, 0, 8)
	err := p.array(maxMembers, func(int) error {
		peer, err := p.ifText()
		peers = append(peers, peer)
		return err
	})
	if err != nil {
		return nil, err
	}
	return peers, nil
}

// decodeProfiles reads a list of partition profiles.
func decodeProfiles(p *scanner) ([]PartitionProfile, error) {
	if p.peek() != '[' {
		return nil, errOtherShape
	}
	profiles := make([]PartitionProfile, 0, 4)
	err := p.array(maxMembers, func(i int) error {
		if p.peek() != '{' {
			return errOtherShape
		}
		profiles = append(profiles, PartitionProfile{})
		return p.object(func(name string) error {
			if err := profiles[i].decodeMember(p, name); err != nil {
				return fmt.Errorf("element %d: %s: %w", i, quoteName(name), err)
			}
			return nil
		})
	})
	if err != nil {
		return nil, err
	}
	return profiles, nil
}

func (f *PartitionProfile) decodeMember(p *scanner, name string) (err error) {
	switch name {
	case "ProfileIndex":
		f.ProfileIndex, err = p.ifCount()
	case "Type":
		f.Type, err = p.ifText()
	case "MemoryCaps":
		f.MemoryCaps, err = p.ifText()
	case "NumPartitions":
		f.NumPartitions, err = p.ifCount()
	case "XCCPerPartition":
		f.XCCPerPartition, err = p.ifCount()
	default:
		f.Unknown, err = p.keep(f.Unknown, name)
	}
	return err
}

func (f *PartitionProfile) append(b []byte) ([]byte, error) {
	for _, n := range []struct {
		name  string
		value int
	}{{"ProfileIndex", f.ProfileIndex}, {"NumPartitions", f.NumPartitions}, {"XCCPerPartition", f.XCCPerPartition}} {
		if err := checkCount(n.name, n.value); err != nil {
			return nil, err
		}
	}
	if err := checkText("Type", f.Type); err != nil {
		return nil, err
	}
	if err := checkText("MemoryCaps", f.MemoryCaps); err != nil {
		return nil, err
	}
	b = append(b, '{')
	b = appendInt(appendKey(b, "ProfileIndex"), f.ProfileIndex)
	b = appendString(appendKey(b, "Type"), f.Type)
	b = appendString(appendKey(b, "MemoryCaps"), f.MemoryCaps)
	b = appendInt(appendKey(b, "NumPartitions"), f.NumPartitions)
	b = appendInt(appendKey(b, "XCCPerPartition"), f.XCCPerPartition)
	b, err := appendMembers(b, f.Unknown, func(name string) bool {
		switch name {
		case "ProfileIndex", "Type", "MemoryCaps", "NumPartitions", "XCCPerPartition":
			return true
		}
		return false
	})
	if err != nil {
		return nil, err
	}
	return append(b, '}'), nil
}

// MarshalJSON writes the members as EncodeDevices does.
func (c CustomInfo) MarshalJSON() ([]byte, error) { return c.append(nil) }

// UnmarshalJSON reads the members as DecodeDevices does.
func (c *CustomInfo) UnmarshalJSON(data []byte) error {
	var read CustomInfo
	p := newScanner(string(data))
	if err := p.last(read.decode(&p)); err != nil {
		return err
	}
	*c = read
	return nil
}
