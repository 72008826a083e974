//go:build cgo

package main

import (
	"context"
	"crypto/tls"
	"errors"
	"net/http"
	"time"
)

// serve answers requests until ctx ends. The certificate is read for each
// handshake, because it is renewed in place.
func serve(ctx context.Context, address, certFile, keyFile string, h http.Handler) error {
	server := &http.Server{Addr: address, Handler: h, ReadHeaderTimeout: 15 * time.Second, ReadTimeout: time.Minute}
	ended := make(chan error, 1)
	go func() {
		if certFile == "" {
			ended <- server.ListenAndServe()
			return
		}
		server.TLSConfig = &tls.Config{GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			cert, err := tls.LoadX509KeyPair(certFile, keyFile)
			return &cert, err
		}}
		ended <- server.ListenAndServeTLS("", "")
	}()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	patience, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	err := server.Shutdown(patience)
	if errors.Is(err, context.DeadlineExceeded) {
		return server.Close()
	}
	return err
}
