package grpcserver

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// certify writes a fresh certificate for 127.0.0.1, which signs itself, and its key.
func certify(t *testing.T, cfg TLSConfig, serial int64) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "test"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for path, block := range map[string]*pem.Block{cfg.CertFile: {Type: "CERTIFICATE", Bytes: der}, cfg.KeyFile: {Type: "PRIVATE KEY", Bytes: private}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// serial is the serial number of the certificate that the server shows to a new connection.
func serial(t *testing.T, address string, versions uint16) (int64, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	// Only the certificate that is shown is of interest.
	dialer := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}, MaxVersion: versions}}
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	return conn.(*tls.Conn).ConnectionState().PeerCertificates[0].SerialNumber.Int64(), nil
}

func TestARenewedCertificateIsUsedWithoutARestart(t *testing.T) {
	dir := t.TempDir()
	cfg := TLSConfig{CertFile: filepath.Join(dir, "cert.pem"), KeyFile: filepath.Join(dir, "key.pem")}
	if err := cfg.Validate("grpc.tls"); err == nil {
		t.Error("files that are not there are taken")
	}
	certify(t, cfg, 1)
	if err := cfg.Validate("grpc.tls"); err != nil {
		t.Error(err)
	}
	f := start(t, func(options *Options) { options.Config.TLS = cfg })
	expect := func(what string, want int64) {
		t.Helper()
		if got, err := serial(t, f.Addr(), 0); err != nil || got != want {
			t.Errorf("%s: certificate %d, %v", what, got, err)
		}
	}
	expect("at first", 1)
	certify(t, cfg, 2)
	expect("renewed", 2)
	if err := os.WriteFile(cfg.CertFile, []byte("half wri"), 0o600); err != nil {
		t.Fatal(err)
	}
	expect("in the middle of a renewal", 2)
	certify(t, cfg, 3)
	expect("renewed again", 3)
	if _, err := serial(t, f.Addr(), tls.VersionTLS11); err == nil {
		t.Error("TLS 1.1 is spoken")
	}
	if err := f.get(t.Context()); err == nil {
		t.Error("a call without TLS is answered")
	}
	if (TLSConfig{}).Config() != nil {
		t.Error("TLS without a certificate")
	}
}
