package handlers

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"
)

// Certificate is one that lies in files, with its key. It is read again when one of
// them changes, so that whoever renews it need not restart nod.
type Certificate struct {
	cert, key string // files
	log       *slog.Logger

	mu   sync.Mutex
	seen [2]version // of the files when they were last read, well or not
	good *tls.Certificate
}

// version tells one content of a file from the next. The zero version is of a file
// that is not there.
type version struct {
	changed time.Time
	size    int64
}

// LoadCertificate reads a certificate and its key. The error is a sentence.
func LoadCertificate(cert, key string, log *slog.Logger) (*Certificate, error) {
	c := &Certificate{cert: cert, key: key, log: log}
	c.seen = c.versions()
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("tls_cert, %s, and tls_key, %s, cannot be used: %w; they must be PEM files, and the key must be the certificate's own", cert, key, err)
	}
	c.good = &pair
	return c, nil
}

// Config returns what a server needs to speak TLS with it.
func (c *Certificate) Config() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: c.current}
}

// current returns the newest certificate that could be read. While one is being
// renewed its files may not fit for a moment; then the one before serves on.
func (c *Certificate) current(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := c.versions(); now != c.seen {
		c.seen = now
		if pair, err := tls.LoadX509KeyPair(c.cert, c.key); err != nil {
			c.log.Warn("the new certificate cannot be used, nod goes on with the one before", "tls_cert", c.cert, "err", err)
		} else {
			c.good = &pair
			c.log.Info("the certificate was renewed", "tls_cert", c.cert)
		}
	}
	return c.good, nil
}

func (c *Certificate) versions() (v [2]version) {
	for i, file := range []string{c.cert, c.key} {
		if info, err := os.Stat(file); err == nil {
			v[i] = version{info.ModTime(), info.Size()}
		}
	}
	return v
}
