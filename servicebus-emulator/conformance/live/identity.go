package live

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strconv"
	"time"
)

// identity stands in for the endpoint that gives a machine in Azure the tokens of its managed identity. The SDK's own credential asks
// it, so that no test has to be changed to sign in with Entra ID.
type identity struct {
	server *httptest.Server
	key    *ecdsa.PrivateKey
}

// identitySecret is what a process shows to the endpoint; it opens nothing.
const identitySecret = "conformance"

func newIdentity() (*identity, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	i := &identity{key: key}
	i.server = httptest.NewServer(http.HandlerFunc(i.serve))
	return i, nil
}

// Environment leads the credentials of the SDK to the endpoint.
func (i *identity) Environment() []string {
	return []string{
		"AZURE_TOKEN_CREDENTIALS=ManagedIdentityCredential", "IDENTITY_ENDPOINT=" + i.server.URL, "IDENTITY_HEADER=" + identitySecret,
	}
}

func (i *identity) serve(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("X-Identity-Header") != identitySecret {
		http.Error(w, "X-Identity-Header is not the one of the environment", http.StatusUnauthorized)
		return
	}
	now := time.Now()
	expires := now.Add(time.Hour)
	token, err := i.token(r.URL.Query().Get("resource"), now, expires)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]string{
		"access_token": token, "expires_on": strconv.FormatInt(expires.Unix(), 10), "resource": r.URL.Query().Get("resource"), "token_type": "Bearer",
	})
}

// token is a JWT as Entra ID gives it, signed with a key of this run.
func (i *identity) token(audience string, now, expires time.Time) (string, error) {
	header, err := json.Marshal(map[string]string{"typ": "JWT", "alg": "ES256", "kid": "conformance"})
	if err != nil {
		return "", err
	}
	claims, err := json.Marshal(map[string]any{
		"aud": audience, "iss": "https://sts.windows.net/00000000-0000-0000-0000-000000000000/", "iat": now.Unix(), "nbf": now.Unix(),
		"exp": expires.Unix(), "oid": "00000000-0000-0000-0000-000000000001", "sub": "00000000-0000-0000-0000-000000000001", "ver": "1.0",
	})
	if err != nil {
		return "", err
	}
	signed := base64.RawURLEncoding.EncodeToString(header) + "." + base64.RawURLEncoding.EncodeToString(claims)
	sum := sha256.Sum256([]byte(signed))
	r, s, err := ecdsa.Sign(rand.Reader, i.key, sum[:])
	if err != nil {
		return "", err
	}
	signature := append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...)
	return signed + "." + base64.RawURLEncoding.EncodeToString(signature), nil
}

// Close stops the endpoint.
func (i *identity) Close() error {
	i.server.Close()
	return nil
}
