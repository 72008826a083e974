package cluster

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"k8s.io/client-go/rest"

	"github.com/Project-HAMi/hami-amd/e2e/process"
)

// Options say where the parts come from. The zero value is what tests want.
type Options struct {
	// Dir takes the data and the logs, in a new folder that Stop removes.
	// Empty: /dev/shm where that is a tmpfs, else the folder for temporary files.
	Dir string
	// CacheDir keeps the built API server. Empty: DefaultCacheDir.
	CacheDir string
	// Etcd is the etcd binary, looked up on PATH if it has no slash. Empty: etcd.
	Etcd string
	// Progress is told when an API server must be built first. Nil: standard error.
	Progress io.Writer
	// ReadyTimeout bounds the wait for etcd and for the API server. 0: one minute each.
	ReadyTimeout time.Duration
}

// Cluster is a running control plane. Its methods may be called from several goroutines.
type Cluster struct {
	dir        string
	releaseDir func() error // removes dir
	apiBinary  string
	apiArgs    []string
	admin      *rest.Config
	timeout    time.Duration

	mu   sync.Mutex // guards what follows
	etcd *process.Process
	api  *process.Process // nil while the API server is stopped
}

// Start starts etcd and the API server and returns when the latter is ready.
// It returns an error if a part is missing or does not become ready; then
// nothing is left running. The caller must call Stop.
func Start(ctx context.Context, o Options) (*Cluster, error) {
	const attempts = 3 // another process may take a port between choosing and listening
	var err error
	for range attempts {
		var c *Cluster
		if c, err = start(ctx, o); err == nil {
			return c, nil
		}
		if !strings.Contains(err.Error(), syscall.EADDRINUSE.Error()) {
			break
		}
	}
	return nil, err
}

func start(ctx context.Context, o Options) (_ *Cluster, err error) {
	if o.Progress == nil {
		o.Progress = os.Stderr
	}
	if o.ReadyTimeout == 0 {
		o.ReadyTimeout = time.Minute
	}
	if o.CacheDir == "" {
		if o.CacheDir, err = DefaultCacheDir(); err != nil {
			return nil, err
		}
	}
	if o.Etcd == "" {
		o.Etcd = "etcd"
	}
	etcd, err := process.Find(o.Etcd, "install Debian's etcd-server")
	if err != nil {
		return nil, err
	}
	binary, err := APIServer(ctx, o.CacheDir, o.Progress)
	if err != nil {
		return nil, err
	}
	dir, release, err := makeDataDir(dataParent(o.Dir))
	if err != nil {
		return nil, fmt.Errorf("make a folder for the cluster's data: %w", err)
	}
	c := &Cluster{dir: dir, releaseDir: release, apiBinary: binary, timeout: o.ReadyTimeout}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Stop())
		}
	}()
	ports, err := freePorts(3)
	if err != nil {
		return nil, err
	}
	etcdURL, err := c.startEtcd(ctx, etcd, ports[0], ports[1])
	if err != nil {
		return nil, err
	}
	if err := c.configure(etcdURL, ports[2]); err != nil {
		return nil, err
	}
	return c, c.StartAPIServer(ctx)
}

// startEtcd starts etcd without fsync: its data does not outlive the test.
func (c *Cluster) startEtcd(ctx context.Context, binary string, clientPort, peerPort int) (string, error) {
	client := fmt.Sprintf("http://127.0.0.1:%d", clientPort)
	peer := fmt.Sprintf("http://127.0.0.1:%d", peerPort)
	p, err := process.Start(process.Options{Name: "etcd", Path: binary, Log: filepath.Join(c.dir, "etcd.log"), Args: []string{
		"--name=e2e",
		"--data-dir=" + filepath.Join(c.dir, "etcd"),
		"--unsafe-no-fsync",
		"--logger=zap", "--log-level=warn",
		"--listen-client-urls=" + client, "--advertise-client-urls=" + client,
		"--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + peer,
		"--initial-cluster=e2e=" + peer,
	}})
	if err != nil {
		return "", err
	}
	c.mu.Lock()
	c.etcd = p
	c.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	return client, p.WaitReady(ctx, func(ctx context.Context) error {
		return getOK(ctx, http.DefaultClient, client+"/health")
	})
}

// configure writes the API server's files and settles its arguments, which
// stay the same over StopAPIServer and StartAPIServer.
func (c *Cluster) configure(etcdURL string, port int) error {
	cert, key, err := servingCertificate(time.Now())
	if err != nil {
		return err
	}
	accountKey, err := newKey()
	if err != nil {
		return err
	}
	token := make([]byte, 16)
	rand.Read(token)
	adminToken := hex.EncodeToString(token)
	files := map[string]string{
		"serving.crt": string(cert),
		"serving.key": string(key),
		"account.key": string(accountKey),
		"tokens.csv":  adminToken + ",admin,admin,system:masters\n",
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(c.dir, name), []byte(content), 0o600); err != nil {
			return fmt.Errorf("write the API server's files: %w", err)
		}
	}
	in := func(name string) string { return filepath.Join(c.dir, name) }
	c.apiArgs = []string{
		"--etcd-servers=" + etcdURL,
		"--bind-address=127.0.0.1",
		// Without these two it looks for a host address that is not loopback.
		"--advertise-address=127.0.0.1",
		"--endpoint-reconciler-type=none",
		fmt.Sprintf("--secure-port=%d", port),
		"--tls-cert-file=" + in("serving.crt"),
		"--tls-private-key-file=" + in("serving.key"),
		"--token-auth-file=" + in("tokens.csv"),
		"--authorization-mode=RBAC",
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + in("account.key"),
		"--service-account-signing-key-file=" + in("account.key"),
		"--disable-admission-plugins=ServiceAccount",
		"--service-cluster-ip-range=10.96.0.0/24",
		"--allow-privileged=true",
		"--profiling=false",
	}
	c.admin = &rest.Config{
		Host:            fmt.Sprintf("https://127.0.0.1:%d", port),
		BearerToken:     adminToken,
		TLSClientConfig: rest.TLSClientConfig{CAData: cert},
		QPS:             -1, // the tests' own calls are not to be throttled
	}
	return nil
}

// StartAPIServer starts the API server again after StopAPIServer, at the same
// address and with the same data, and returns when it is ready. It does
// nothing if the API server runs.
func (c *Cluster) StartAPIServer(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.api != nil {
		return nil
	}
	p, err := process.Start(process.Options{Name: "kube-apiserver", Path: c.apiBinary, Log: filepath.Join(c.dir, "kube-apiserver.log"), Args: c.apiArgs})
	if err != nil {
		return err
	}
	client, err := rest.HTTPClientFor(c.admin)
	if err != nil {
		p.Kill()
		return fmt.Errorf("make a client for the API server: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	err = p.WaitReady(ctx, func(ctx context.Context) error {
		return getOK(ctx, client, c.admin.Host+"/readyz")
	})
	if err != nil {
		p.Kill()
		return err
	}
	c.api = p
	return nil
}

// StopAPIServer kills the API server, as a machine that loses power does:
// requests in flight get no answer, later ones are refused. etcd keeps the
// data. It does nothing if the API server is stopped.
func (c *Cluster) StopAPIServer() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.api != nil {
		c.api.Kill()
		c.api = nil
	}
}

// FreezeAPIServer makes the API server hang: connections are taken and
// requests get no answer until thaw is called, which serves them. It returns
// an error if the API server is stopped.
func (c *Cluster) FreezeAPIServer() (thaw func() error, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.api == nil {
		return nil, errors.New("freeze kube-apiserver: it is stopped")
	}
	return c.api.Freeze()
}

// Stop ends both processes and removes their data. It may be called again.
func (c *Cluster) Stop() error {
	c.StopAPIServer()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.etcd != nil {
		c.etcd.Kill()
		c.etcd = nil
	}
	if err := c.releaseDir(); err != nil {
		return fmt.Errorf("remove the cluster's data: %w", err)
	}
	return nil
}

// WriteLogs writes the last lines of both processes to w, for a failed test.
// Call it before Stop.
func (c *Cluster) WriteLogs(w io.Writer) {
	for _, name := range []string{"etcd", "kube-apiserver"} {
		log, err := os.ReadFile(filepath.Join(c.dir, name+".log"))
		if err != nil {
			log = []byte(err.Error())
		}
		fmt.Fprintf(w, "%s:\n%s", name, process.Tail(log, 40))
	}
}

// freePorts returns n ports of the loopback address nobody listens on.
func freePorts(n int) ([]int, error) {
	var ports []int
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, fmt.Errorf("find a free port: %w", err)
		}
		defer l.Close() // after the loop, so that no port comes twice
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}

// getOK fails unless url answers 200.
func getOK(ctx context.Context, client *http.Client, url string) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<16))
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s: %s: %s", url, resp.Status, body)
	}
	return nil
}
