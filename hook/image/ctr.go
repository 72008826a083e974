package image

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/containerd/containerd/v2/core/mount"
	"github.com/containerd/platforms"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// Ctr is the image store of a containerd that is spoken to with its ctr
// command, for nodes whose containerd the client does not understand. ctr
// mounts images itself: the process needs what [Containerd] needs.
type Ctr struct {
	// Path is the command, "ctr" if empty; k3s and RKE2 have their own.
	Path string
	// Socket, Namespace and Snapshotter are as in [ContainerdOptions].
	Socket, Namespace, Snapshotter string
}

// maxOutput bounds what is taken from one run of ctr.
const maxOutput = maxConfig

// Resolve implements [Store].
func (s Ctr) Resolve(ctx context.Context, name string) (Image, error) {
	out, err := s.run(ctx, "images", "list", fmt.Sprintf("name==%q", name))
	if err != nil {
		return Image{}, err
	}
	return parseList(string(out), name)
}

// parseList reads ctr's table of images: a header, then the name, the media
// type, the digest and more.
func parseList(out, name string) (Image, error) {
	for line := range strings.Lines(out) {
		f := strings.Fields(line)
		if len(f) < 3 || f[0] != name {
			continue
		}
		if !strings.HasPrefix(f[2], "sha256:") {
			return Image{}, fmt.Errorf("ctr images list: want a digest for %q, have %q", name, f[2])
		}
		return Image{Name: name, MediaType: f[1], Digest: f[2]}, nil
	}
	return Image{}, ErrNotOnNode
}

// Pull implements [Store].
func (s Ctr) Pull(ctx context.Context, name string) error {
	_, err := s.run(ctx, append([]string{"images", "pull"}, s.snapshotter(name)...)...)
	return err
}

// Open implements [Store]. ctr goes by names, so the digest is looked at again
// once the files are mounted.
func (s Ctr) Open(ctx context.Context, img Image, fn func(Config, fs.ReadLinkFS) error) (err error) {
	config, err := s.config(ctx, img.Digest)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "image-view-")
	if err != nil {
		return err
	}
	// Never with what is in it: should an unmount fail, that is the image.
	defer os.Remove(dir)
	defer func() { err = errors.Join(err, s.unmount(context.WithoutCancel(ctx), dir)) }()
	if _, err := s.run(ctx, append([]string{"images", "mount"}, s.snapshotter(img.Name, dir)...)...); err != nil {
		return err
	}
	again, err := s.Resolve(ctx, img.Name)
	if err != nil {
		return err
	}
	if again.Digest != img.Digest {
		return fmt.Errorf("image %q has changed from %s to %s", img.Name, img.Digest, again.Digest)
	}
	return readFiles(dir, func(files fs.ReadLinkFS) error { return fn(configOf(config), files) })
}

// unmount undoes a mount and drops the view and the lease that ctr has made
// for it, both named after the directory. ctr 1.6 mounts from its default
// snapshotter whatever it is told; such a view goes with the lease, as soon as
// containerd collects its garbage.
func (s Ctr) unmount(ctx context.Context, dir string) error {
	ctx, cancel := context.WithTimeout(ctx, cleanUpTime)
	defer cancel()
	_, err := s.run(ctx, append([]string{"images", "unmount", "--rm"}, s.snapshotter(dir)...)...)
	if err != nil {
		err = errors.Join(err, mount.UnmountAll(dir, 0))
	}
	// Usually gone already; else it would stay for a day.
	_, _ = s.run(ctx, "leases", "delete", dir)
	return err
}

// config reads the configuration of the image for this node's platform.
func (s Ctr) config(ctx context.Context, digest string) (ocispec.Image, error) {
	// An index leads to a manifest, a manifest to the configuration.
	for range 3 {
		data, err := s.blob(ctx, digest)
		if err != nil {
			return ocispec.Image{}, err
		}
		next, done, err := nextBlob(data)
		if err != nil {
			return ocispec.Image{}, fmt.Errorf("image manifest %s: %w", digest, err)
		}
		if done {
			return parseConfig(data)
		}
		digest = next
	}
	return ocispec.Image{}, errors.New("image manifest: indexes are nested too deeply")
}

func (s Ctr) blob(ctx context.Context, digest string) ([]byte, error) {
	return s.run(ctx, "content", "get", digest)
}

// nextBlob is the digest of what a manifest or an index leads to; done if the
// data is a configuration.
func nextBlob(data []byte) (digest string, done bool, err error) {
	var doc struct {
		Manifests []ocispec.Descriptor `json:"manifests"`
		Config    json.RawMessage      `json:"config"`
		RootFS    json.RawMessage      `json:"rootfs"`
	}
	if err := json.Unmarshal(data, &doc); err != nil {
		return "", false, err
	}
	switch {
	case doc.RootFS != nil:
		return "", true, nil
	case doc.Manifests != nil:
		digest, err := choose(doc.Manifests)
		return digest, false, err
	}
	var config ocispec.Descriptor
	if err := json.Unmarshal(doc.Config, &config); err != nil || config.Digest == "" {
		return "", false, errors.Join(errors.New("want an index, a manifest or a configuration"), err)
	}
	return config.Digest.String(), false, nil
}

// choose picks the manifest for this node's platform.
func choose(list []ocispec.Descriptor) (string, error) {
	match := platforms.Default()
	var best *ocispec.Descriptor
	for i, d := range list {
		if d.Platform != nil && match.Match(*d.Platform) && (best == nil || match.Less(*d.Platform, *best.Platform)) {
			best = &list[i]
		}
	}
	if best == nil {
		return "", fmt.Errorf("no manifest for %s", platforms.DefaultString())
	}
	return best.Digest.String(), nil
}

// snapshotter names the snapshotter, which ctr does not default the same way in
// all of its commands.
func (s Ctr) snapshotter(args ...string) []string {
	name := s.Snapshotter
	if name == "" {
		name = defaultSnapshotter
	}
	return append([]string{"--snapshotter", name}, args...)
}

// run runs ctr and returns what it prints.
func (s Ctr) run(ctx context.Context, args ...string) ([]byte, error) {
	name, socket, namespace := s.Path, s.Socket, s.Namespace
	if name == "" {
		name = "ctr"
	}
	if socket == "" {
		socket = DefaultSocket
	}
	if namespace == "" {
		namespace = DefaultNamespace
	}
	cmd := exec.CommandContext(ctx, name, append([]string{"--address", socket, "--namespace", namespace}, args...)...)
	var out, errs limitedBuffer
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &out, &errs, time.Second
	if err := cmd.Run(); err != nil {
		text := strings.TrimSpace(string(errs.kept))
		err = fmt.Errorf("%s %s: %w: %s", name, strings.Join(args[:2], " "), err, text[max(0, len(text)-512):])
		if strings.Contains(text, ": not found") {
			err = fmt.Errorf("%w: %w", ErrNotOnNode, err)
		}
		return nil, err
	}
	if out.full {
		return nil, fmt.Errorf("%s %s: want at most %d bytes of output, have more", name, strings.Join(args[:2], " "), maxOutput)
	}
	return out.kept, nil
}

// limitedBuffer keeps the first maxOutput bytes and drops the rest.
type limitedBuffer struct {
	kept []byte
	full bool
}

func (b *limitedBuffer) Write(p []byte) (int, error) {
	room := maxOutput - len(b.kept)
	b.full = b.full || len(p) > room
	b.kept = append(b.kept, p[:min(len(p), room)]...)
	return len(p), nil
}
