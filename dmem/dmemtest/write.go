package dmemtest

import (
	"errors"
	"path"
	"strconv"
	"strings"
	"syscall"
)

// write is one write(2). The error is the errno.
func (k *Kernel) write(name, data string) error {
	if k.o.OnWrite != nil {
		if err := k.o.OnWrite(name, data); err != nil {
			k.mu.Lock()
			defer k.mu.Unlock()
			k.writes = append(k.writes, Write{name, data})
			return err
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.writes = append(k.writes, Write{name, data})
	if k.oops {
		return syscall.EIO
	}
	dir, base := path.Dir(name), path.Base(name)
	c := k.cgroups[dir]
	switch {
	case c == nil:
		return syscall.ENODEV
	case base == "cgroup.subtree_control":
		return k.writeSubtree(dir, c, data)
	case base == "dmem.max" && dir != ".":
		err := k.writeMax(c, data)
		return errors.Join(err, k.writeDmem(dir, k.host(dir), c))
	}
	return syscall.EINVAL
}

// writeSubtree takes +controller and -controller. Only dmem is kept track of.
func (k *Kernel) writeSubtree(dir string, c *cgroup, data string) error {
	for word := range strings.FieldsSeq(data) {
		switch {
		case word != "+dmem" && word != "-dmem":
			return syscall.EINVAL
		case !k.controlled(dir):
			return syscall.ENOENT
		case word == "-dmem":
			return syscall.EOPNOTSUPP // not modelled
		case c.processes && dir != ".":
			return syscall.EBUSY
		}
	}
	return k.delegate(dir)
}

// writeMax applies the lines of one write. The older kernels cut the data at
// each newline, skip empty lines, and stop at the first that fails; what was
// applied before stays.
func (k *Kernel) writeMax(c *cgroup, data string) error {
	if k.o.OneRegion {
		return k.writeLimit(c, strings.TrimSpace(data))
	}
	for line := range strings.SplitSeq(data, "\n") {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		if err := k.writeLimit(c, line); err != nil {
			return err
		}
	}
	return nil
}

func (k *Kernel) writeLimit(c *cgroup, line string) error {
	name, value, found := cutBlank(line)
	if !found && k.o.OneRegion || name == "" {
		return syscall.EINVAL
	}
	known := false
	for _, r := range k.regions {
		known = known || r.name == name
	}
	if !known {
		return syscall.EINVAL
	}
	if !found {
		// The value is a NULL pointer that strcmp reads.
		k.oops = true
		return syscall.EIO
	}
	if value == "max" {
		delete(c.limit, name)
		return nil
	}
	bytes, ok := memparse(value)
	if !ok {
		return syscall.EINVAL
	}
	if bytes < c.current[name] {
		switch k.o.Below {
		case Refuse:
			return syscall.EBUSY
		case Ignore:
			return nil
		}
	}
	c.limit[name] = bytes
	return nil
}

// cutBlank cuts at the first blank, as strsep(&line, " \t") does: a second
// blank stays in the value.
func cutBlank(line string) (name, value string, found bool) {
	i := strings.IndexAny(line, " \t")
	if i < 0 {
		return line, "", false
	}
	return line[:i], line[i+1:], true
}

// memparse is the kernel's function of that name (lib/cmdline.c): a number and
// one optional letter, powers of 1024. The whole string must be used up.
func memparse(s string) (uint64, bool) {
	shift := 0
	if s != "" {
		if i := strings.IndexByte("KMGTPE", s[len(s)-1]&^0x20); i >= 0 {
			shift, s = 10*(i+1), s[:len(s)-1]
		}
	}
	n, err := strconv.ParseUint(s, 0, 64)
	if err != nil || strings.Contains(s, "_") {
		return 0, false
	}
	return n << shift, true
}
