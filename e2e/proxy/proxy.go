package proxy

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// Call is one request to the API server.
type Call struct {
	// Number counts from 1 since the start or the last Reset, in the order in
	// which requests came in.
	Number int
	// Method is GET, PATCH and so on; Watch tells a watch from a list.
	Method string
	Watch  bool
	// Path is the URL's, such as /api/v1/namespaces/default/pods/train-0.
	Path  string
	Query url.Values
	// Body is what was sent, as on the wire.
	Body      []byte
	UserAgent string
	// Status is the API server's answer, 0 while there is none. A call that was
	// cut after it took effect has the answer that was lost.
	Status int
	// Took is the time until the answer's header.
	Took time.Duration
}

// Fault says what happens to a call. The zero value is nothing.
type Fault struct {
	// Before is called before the API server gets the call, which waits for it.
	Before func()
	// CutRequest closes the connection then, so that the call takes no effect.
	CutRequest bool
	// Refuse answers with this HTTP status in the API server's stead, 0 does not.
	Refuse int
	// After is called when the API server has answered; the answer waits for it.
	After func()
	// CutAnswer closes the connection then, so that the answer is lost.
	CutAnswer bool
}

// Proxy is a running proxy. Its methods may be called from several goroutines.
type Proxy struct {
	url    string
	ca     []byte // PEM
	server *http.Server

	mu        sync.Mutex // guards what follows
	calls     []Call
	round     int // counts Reset
	intercept func(Call) Fault
}

// Start serves on a free loopback port. Of access it uses address and
// certificate only. The caller must call Stop.
func Start(access *rest.Config) (*Proxy, error) {
	target, err := url.Parse(access.Host)
	if err != nil {
		return nil, fmt.Errorf("start a proxy: %w", err)
	}
	transport, err := rest.TransportFor(rest.AnonymousClientConfig(access))
	if err != nil {
		return nil, fmt.Errorf("start a proxy: %w", err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("start a proxy: %w", err)
	}
	// Over plain HTTP client-go would drop the token of a kubeconfig.
	certificate := httptest.NewTLSServer(nil)
	certificate.Close()
	p := &Proxy{
		url: "https://" + listener.Addr().String(),
		ca:  pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Certificate().Raw}),
	}
	forward := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:     transport,
		FlushInterval: -1, // watches are passed on event by event
		ErrorLog:      log.New(io.Discard, "", 0),
		ModifyResponse: func(resp *http.Response) error {
			return resp.Request.Context().Value(answered{}).(func(int) error)(resp.StatusCode)
		},
		// No answer, or one to be lost: the program sees the connection close.
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	// HTTP/1.1 alone: there a call that is cut costs the connection, as it does
	// when the API server dies.
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	p.server = &http.Server{
		Handler: p.handler(forward), ErrorLog: log.New(io.Discard, "", 0), Protocols: &protocols,
		TLSConfig: &tls.Config{Certificates: certificate.TLS.Certificates},
	}
	go p.server.ServeTLS(listener, "", "")
	return p, nil
}

// Stop closes all connections and the listener.
func (p *Proxy) Stop() error { return p.server.Close() }

// Access returns a copy of access that goes through the proxy.
func (p *Proxy) Access(access *rest.Config) *rest.Config {
	through := rest.CopyConfig(access)
	through.Host = p.url
	through.TLSClientConfig = rest.TLSClientConfig{CAData: p.ca}
	return through
}

// Intercept lets f choose the fault of each call from now on. nil ends it. f is
// called in the order of the calls' numbers, one at a time, and must not call
// the proxy; what takes time belongs into Before or After.
func (p *Proxy) Intercept(f func(Call) Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.intercept = f
}

// Calls returns the calls since the start or the last Reset, in order.
func (p *Proxy) Calls() []Call {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.calls)
}

// Reset forgets the calls so far and returns them. Numbers start again at 1.
func (p *Proxy) Reset() []Call {
	p.mu.Lock()
	defer p.mu.Unlock()
	calls := p.calls
	p.calls = nil
	p.round++
	return calls
}

// answered is the context key of the function that is told a call's status.
type answered struct{}

var errCut = errors.New("answer cut on purpose")

func (p *Proxy) handler(forward http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler) // the program has gone
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		start := time.Now()
		fault, settle := p.record(r, body)
		if fault.Before != nil {
			fault.Before()
		}
		switch {
		case fault.CutRequest:
			panic(http.ErrAbortHandler)
		case fault.Refuse != 0:
			settle(fault.Refuse, time.Since(start))
			refuse(w, fault.Refuse)
			return
		}
		onAnswer := func(status int) error {
			settle(status, time.Since(start))
			if fault.After != nil {
				fault.After()
			}
			if fault.CutAnswer {
				return errCut
			}
			return nil
		}
		forward.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), answered{}, onAnswer)))
	})
}

// record numbers a call and returns its fault, and a function that notes its answer.
func (p *Proxy) record(r *http.Request, body []byte) (Fault, func(status int, took time.Duration)) {
	call := Call{
		Method: r.Method, Path: r.URL.Path, Query: r.URL.Query(), Body: body, UserAgent: r.UserAgent(),
		Watch: r.URL.Query().Get("watch") != "",
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	round := p.round
	call.Number = len(p.calls) + 1
	p.calls = append(p.calls, call)
	var fault Fault
	if p.intercept != nil {
		fault = p.intercept(call)
	}
	return fault, func(status int, took time.Duration) {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.round == round {
			p.calls[call.Number-1].Status, p.calls[call.Number-1].Took = status, took
		}
	}
}

// refuse answers as the API server does with an error.
func refuse(w http.ResponseWriter, code int) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(metav1.Status{ // the program may have gone
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusFailure,
		Code:     int32(code),
		Message:  "refused on purpose",
	})
}
