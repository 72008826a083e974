package allocate

import "fmt"

// peakOf is the most of something that runs at the same time: all app
// containers and sidecars, or one init container with the sidecars declared
// before it. shares are in spec order.
func peakOf(shares []share, amount func(share) int) int {
	together, sidecars, peak := 0, 0, 0
	for _, s := range shares {
		switch s.role {
		case Sidecar:
			sidecars += amount(s)
			together += amount(s)
		case Init:
			peak = max(peak, sidecars+amount(s))
		default:
			together += amount(s)
		}
	}
	return max(peak, together)
}

// checkMemory refuses grants that are each possible but not at the same time.
// It also keeps a whole device to one container: a slice has at least one MiB.
func checkMemory(shares []share) error {
	device := shares[0].device
	peak := peakOf(shares, func(s share) int {
		if s.whole { // a hard device may be granted as less than it is
			return int(device.Devmem)
		}
		return int(s.memoryMiB)
	})
	if peak > int(device.Devmem) {
		return fmt.Errorf("%w: containers that run at the same time are granted %d MiB, the device has %d", ErrGrant, peak, device.Devmem)
	}
	return nil
}
