package image

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/leases"
	"github.com/containerd/containerd/v2/core/mount"
	"github.com/containerd/containerd/v2/core/remotes"
	"github.com/containerd/containerd/v2/core/remotes/docker"
	"github.com/containerd/containerd/v2/core/snapshots"
	"github.com/containerd/errdefs"
	"github.com/containerd/platforms"
	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/identity"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// DefaultSocket and DefaultNamespace are where kubelet's images are on a plain
// containerd; RKE2 and k3s use /run/k3s/containerd/containerd.sock.
const (
	DefaultSocket    = "/run/containerd/containerd.sock"
	DefaultNamespace = "k8s.io"
)

// defaultSnapshotter is containerd's own default, and that of its CRI plugin.
const defaultSnapshotter = "overlayfs"

// ContainerdOptions tell how to reach containerd. The zero value is a plain
// installation.
type ContainerdOptions struct {
	Socket    string // DefaultSocket if empty
	Namespace string // DefaultNamespace if empty
	// Snapshotter unpacks pulled images, and is the first to be asked for an
	// image's files; "" is overlayfs. An image that another one has unpacked
	// is found all the same.
	Snapshotter string
	// Resolver reaches registries for pulls; nil is the usual registries
	// without credentials, plain HTTP on the loopback only.
	Resolver remotes.Resolver
}

// Containerd is the image store of a containerd, 1.6 or newer. Files are read
// in a read-only view of the unpacked image that is mounted for the time of
// the look, so the process needs CAP_SYS_ADMIN and containerd's data directory
// at the same path as on the host.
type Containerd struct {
	client *client.Client
	o      ContainerdOptions
}

// OpenContainerd returns the store behind a socket. It does not wait for
// containerd to answer.
func OpenContainerd(o ContainerdOptions) (*Containerd, error) {
	if o.Socket == "" {
		o.Socket = DefaultSocket
	}
	if o.Namespace == "" {
		o.Namespace = DefaultNamespace
	}
	if o.Snapshotter == "" {
		o.Snapshotter = defaultSnapshotter
	}
	c, err := client.New(o.Socket, client.WithDefaultNamespace(o.Namespace))
	if err != nil {
		return nil, fmt.Errorf("containerd at %q: %w", o.Socket, err)
	}
	return &Containerd{c, o}, nil
}

// Close closes the connection.
func (s *Containerd) Close() error { return s.client.Close() }

// Resolve implements [Store].
func (s *Containerd) Resolve(ctx context.Context, name string) (Image, error) {
	img, err := s.client.ImageService().Get(ctx, name)
	if err != nil {
		return Image{}, onNode(err)
	}
	return Image{name, img.Target.Digest.String(), img.Target.MediaType, img.Target.Size}, nil
}

// Pull implements [Store].
func (s *Containerd) Pull(ctx context.Context, name string) error {
	resolver := s.o.Resolver
	if resolver == nil {
		// A resolver keeps tokens of the registries it has spoken to, so each
		// pull gets its own.
		resolver = docker.NewResolver(docker.ResolverOptions{
			Hosts: docker.ConfigureDefaultRegistries(docker.WithPlainHTTP(docker.MatchLocalhost)),
		})
	}
	_, err := s.client.Pull(ctx, name, client.WithResolver(resolver), client.WithPullUnpack,
		client.WithPullSnapshotter(s.o.Snapshotter))
	return err
}

// Open implements [Store].
func (s *Containerd) Open(ctx context.Context, img Image, fn func(Config, fs.ReadLinkFS) error) error {
	ctx, done, err := s.client.WithLease(ctx, leases.WithRandomID(), leases.WithExpiration(leaseTime))
	if err != nil {
		return fmt.Errorf("lease: %w", err)
	}
	// The lease holds the view; should this process be killed, containerd
	// drops both when the lease ends.
	defer cleanUp(ctx, done)

	config, err := s.config(ctx, img)
	if err != nil {
		return onNode(err)
	}
	layers := identity.ChainID(config.RootFS.DiffIDs).String()
	snapshotter, err := s.snapshotter(ctx, layers)
	if err != nil {
		return onNode(err)
	}
	return s.view(ctx, snapshotter, layers, func(files fs.ReadLinkFS) error {
		return fn(configOf(config), files)
	})
}

// leaseTime is how long what a killed process leaves in containerd lives.
const leaseTime = time.Hour

// maxConfig bounds an image's configuration and manifests. Real ones have some
// kilobytes.
const maxConfig = 8 << 20

// config reads the configuration of the image for this node's platform.
func (s *Containerd) config(ctx context.Context, img Image) (ocispec.Image, error) {
	if img.Size > maxConfig {
		return ocispec.Image{}, fmt.Errorf("image manifest: want at most %d bytes, have %d", maxConfig, img.Size)
	}
	store := s.client.ContentStore()
	target := ocispec.Descriptor{MediaType: img.MediaType, Digest: digest.Digest(img.Digest), Size: img.Size}
	desc, err := images.Config(ctx, store, target, platforms.Default())
	if err != nil {
		return ocispec.Image{}, fmt.Errorf("image manifest: %w", err)
	}
	if desc.Size > maxConfig {
		return ocispec.Image{}, fmt.Errorf("image configuration: want at most %d bytes, have %d", maxConfig, desc.Size)
	}
	data, err := content.ReadBlob(ctx, store, desc)
	if err != nil {
		return ocispec.Image{}, fmt.Errorf("image configuration: %w", err)
	}
	return parseConfig(data)
}

func parseConfig(data []byte) (ocispec.Image, error) {
	var config ocispec.Image
	if err := json.Unmarshal(data, &config); err != nil {
		return ocispec.Image{}, fmt.Errorf("image configuration: %w", err)
	}
	return config, nil
}

func configOf(img ocispec.Image) Config {
	c := img.Config
	return Config{Entrypoint: c.Entrypoint, Cmd: c.Cmd, Env: c.Env, WorkingDir: c.WorkingDir}
}

// snapshotter finds who has unpacked the layers.
func (s *Containerd) snapshotter(ctx context.Context, layers string) (snapshots.Snapshotter, error) {
	names := []string{s.o.Snapshotter}
	plugins, err := s.client.IntrospectionService().Plugins(ctx, `type=="io.containerd.snapshotter.v1"`)
	if err != nil {
		return nil, fmt.Errorf("list snapshotters: %w", err)
	}
	for _, p := range plugins.Plugins {
		if p.InitErr == nil && !slices.Contains(names, p.ID) {
			names = append(names, p.ID)
		}
	}
	for _, name := range names {
		snapshotter := s.client.SnapshotService(name)
		info, err := snapshotter.Stat(ctx, layers)
		if err == nil && info.Kind == snapshots.KindCommitted {
			return snapshotter, nil
		}
		// One that is not loaded answers "invalid argument".
		if err != nil && !errdefs.IsNotFound(err) && !errdefs.IsInvalidArgument(err) {
			return nil, fmt.Errorf("look for the unpacked image in %q: %w", name, err)
		}
	}
	return nil, fmt.Errorf("no snapshotter of %s has unpacked the image: %w", strings.Join(names, ", "), errdefs.ErrNotFound)
}

// view mounts a read-only view of unpacked layers and calls fn with it.
func (s *Containerd) view(ctx context.Context, snapshotter snapshots.Snapshotter, layers string, fn func(fs.ReadLinkFS) error) error {
	dir, err := os.MkdirTemp("", "image-view-")
	if err != nil {
		return err
	}
	// Never with what is in it: should an unmount fail, that is the image.
	defer os.Remove(dir)
	key := dir // unique on this node while the directory exists
	mounts, err := snapshotter.View(ctx, key, layers)
	if err != nil {
		return onNode(fmt.Errorf("view of the image: %w", err))
	}
	defer cleanUp(ctx, func(ctx context.Context) error { return snapshotter.Remove(ctx, key) })

	if err := mount.All(careful(mounts), dir); err != nil {
		return errors.Join(
			fmt.Errorf("mount the image (containerd's data directory must be at the same path here): %w", err),
			mount.UnmountAll(dir, 0))
	}
	err = readFiles(dir, fn)
	return errors.Join(err, mount.UnmountAll(dir, 0))
}

// cleanUpTime bounds each step of undoing a look.
const cleanUpTime = 10 * time.Second

// cleanUp runs a step that undoes something, also when the look has run out of
// time. What fails is left to the end of the lease.
func cleanUp(ctx context.Context, step func(context.Context) error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUpTime)
	defer cancel()
	_ = step(ctx)
}

// careful adds the options that keep an image's files from doing anything.
func careful(mounts []mount.Mount) []mount.Mount {
	list := make([]mount.Mount, len(mounts))
	for i, m := range mounts {
		m.Options = slices.DeleteFunc(slices.Clone(m.Options), func(o string) bool { return o == "rw" || o == "ro" })
		m.Options = append(m.Options, "ro", "nosuid", "nodev", "noexec")
		list[i] = m
	}
	return list
}

// readFiles calls fn with the files below a directory.
func readFiles(dir string, fn func(fs.ReadLinkFS) error) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	files, ok := root.FS().(fs.ReadLinkFS)
	if !ok {
		return fmt.Errorf("files of %q: want links to be readable", dir)
	}
	return fn(files)
}

// onNode turns containerd's "not found" into ErrNotOnNode.
func onNode(err error) error {
	if errdefs.IsNotFound(err) {
		return fmt.Errorf("%w: %w", ErrNotOnNode, err)
	}
	return err
}
