package image

import (
	"errors"
	"io/fs"
	"path"
	"strings"
)

// Config is what an image's configuration says of its command (OCI image
// spec, "config").
type Config struct {
	Entrypoint, Cmd []string
	Env             []string // NAME=value
	WorkingDir      string
}

// Override is what the container spec says of the command, by the fields'
// names there. The zero value leaves everything to the image.
type Override struct {
	Command, Args []string
	WorkingDir    string
	// Path is the value of a literal env entry named PATH; "" is none.
	Path string
	// Mounts are the mount paths of the container's volumes. What they hide
	// cannot be told from the image.
	Mounts []string
}

// defaultPath is what container runtimes use for an image without a PATH.
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// maxPathDirs bounds the directories of a PATH that are looked through.
const maxPathDirs = 64

// command is a command as the runtime will run it.
type command struct {
	argv []string
	dirs []string // PATH
	dir  string   // working directory
}

// commandOf merges what the image and the pod say: a pod's command replaces
// the entry point and drops the image's arguments, its args replace only
// those.
func commandOf(c Config, o Override) (command, error) {
	argv := o.Command
	switch {
	case len(o.Command) > 0:
		argv = append(argv[:len(argv):len(argv)], o.Args...)
	case len(o.Args) > 0:
		argv = append(c.Entrypoint[:len(c.Entrypoint):len(c.Entrypoint)], o.Args...)
	default:
		argv = append(c.Entrypoint[:len(c.Entrypoint):len(c.Entrypoint)], c.Cmd...)
	}
	if len(argv) == 0 || argv[0] == "" {
		return command{}, unknown("no command: neither the image nor the pod has one")
	}
	if strings.Contains(argv[0], "$(") {
		return command{}, unknown("command %q refers to a variable", argv[0])
	}
	search := o.Path
	for _, e := range c.Env {
		if value, ok := strings.CutPrefix(e, "PATH="); ok && o.Path == "" {
			search = value
		}
	}
	if search == "" {
		search = defaultPath
	}
	dirs := strings.Split(search, ":")
	if len(dirs) > maxPathDirs {
		return command{}, unknown("PATH: want at most %d directories, have %d", maxPathDirs, len(dirs))
	}
	dir := "/"
	for _, d := range []string{c.WorkingDir, o.WorkingDir} {
		if d != "" {
			dir = path.Join("/", d)
		}
	}
	return command{argv, dirs, dir}, nil
}

// find is the path of a program: as it is if it has a slash, else the first
// executable file of that name in the directories of PATH.
func (c command) find(t tree, name string) (string, error) {
	if strings.Contains(name, "/") {
		return c.abs(name), nil
	}
	for _, d := range c.dirs {
		candidate := c.abs(path.Join(d, name))
		_, info, err := t.resolve(candidate)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			return "", err
		case info != nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0:
			return candidate, nil
		}
	}
	return "", unknown("program %q is not in the image's PATH", name)
}

func (c command) abs(name string) string {
	if path.IsAbs(name) {
		return name
	}
	return path.Join(c.dir, name)
}
