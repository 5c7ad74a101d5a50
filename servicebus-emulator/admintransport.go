package servicebusemulator

import (
	"net/http"
)

// AdminTransport leads the Azure SDK's administration clients, which only know https, to an emulator's plain HTTP at
// addr: it is for azcore.ClientOptions.Transport. It belongs to nobody but the client it is given to; CloseIdleConnections
// ends what it keeps open.
func AdminTransport(addr string) *http.Client {
	return &http.Client{Transport: plainHTTP{addr: addr, Transport: http.DefaultTransport.(*http.Transport).Clone()}}
}

type plainHTTP struct {
	*http.Transport
	addr string
}

// RoundTrip sends a request to the emulator. The host stays the namespace's, so that URLs in answers are of it.
func (p plainHTTP) RoundTrip(r *http.Request) (*http.Response, error) {
	plain := r.Clone(r.Context())
	if plain.Host == "" {
		plain.Host = r.URL.Host
	}
	plain.URL.Scheme, plain.URL.Host = "http", p.addr
	return p.Transport.RoundTrip(plain)
}
