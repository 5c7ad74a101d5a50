package sqldb

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"net"
	"net/url"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	mssql "github.com/microsoft/go-mssqldb"
	"github.com/microsoft/go-mssqldb/azuread"
	"github.com/microsoft/go-mssqldb/msdsn"
)

// loginTimeout bounds the time from the first packet to a database until a connection can be used.
const loginTimeout = 10 * time.Second

// fedAuths are the ways of signing in with Microsoft Entra ID that a service can use, spelled as the driver compares them.
var fedAuths = []string{
	azuread.ActiveDirectoryWorkloadIdentity, azuread.ActiveDirectoryManagedIdentity, azuread.ActiveDirectoryMSI, azuread.ActiveDirectoryServicePrincipal,
	azuread.ActiveDirectoryApplication, azuread.ActiveDirectoryDefault, azuread.ActiveDirectoryEnvironment, azuread.ActiveDirectoryAzCli,
}

// sqlServerSource checks a URL of SQL Server, and returns it as the driver takes it. Errors hold neither the URL nor its secrets.
func sqlServerSource(text string) (string, error) {
	parsed, err := url.Parse(text)
	if err != nil || parsed.Scheme != "sqlserver" || parsed.Host == "" {
		return "", errors.New("must be sqlserver://user:password@host?database=name&encrypt=true or sqlite:<path of a file>")
	}
	// The driver itself would refuse the rest only when it connects. It names the parameter and its value, never the whole URL.
	config, err := msdsn.Parse(text)
	if err != nil {
		return "", err
	}
	if parsed.Port() != "" && strings.Trim(parsed.Path, "/") != "" {
		return "", fmt.Errorf("names the instance %q and a port, of which the driver ignores the instance; a database is named by database=", strings.Trim(parsed.Path, "/"))
	}
	if config.Parameters[msdsn.Encrypt] == "" {
		return "", errors.New("must state encrypt (true, or disable where the network itself protects the traffic)")
	}
	if err := checkParameters(parsed.Query(), config); err != nil {
		return "", err
	}
	return signIn(text, parsed, config)
}

// parameters are those that the driver and its sign-in read. It ignores any other without a word.
var parameters = []string{
	msdsn.Database, msdsn.Encrypt, msdsn.UserID, msdsn.Password, msdsn.TrustServerCertificate, msdsn.Certificate, msdsn.ServerCertificate, msdsn.TLSMin, msdsn.PacketSize,
	msdsn.LogParam, msdsn.ConnectionTimeout, msdsn.HostNameInCertificate, msdsn.KeepAlive, msdsn.ServerSpn, msdsn.WorkstationID, msdsn.AppName,
	msdsn.ApplicationIntent, msdsn.FailoverPartner, msdsn.FailOverPort, msdsn.FailoverPartnerSpn, msdsn.DisableRetry, msdsn.Protocol, msdsn.DialTimeout,
	msdsn.MultiSubnetFailover, msdsn.NoTraceID, msdsn.GuidConversion, msdsn.Timezone, msdsn.EpaEnabled,
	"fedauth", "applicationclientid", "clientcertpath", "resource id", "tokenfilepath", "additionallyallowedtenants", "disableinstancediscovery", "sendcertificatechain",
}

func checkParameters(query url.Values, config msdsn.Config) error {
	for name := range query {
		if !slices.Contains(parameters, strings.ToLower(name)) {
			return fmt.Errorf("holds the parameter %q, which the driver does not know and would ignore", name)
		}
	}
	if strings.EqualFold(config.Parameters[msdsn.ApplicationIntent], "ReadOnly") {
		return errors.New("asks for a read-only replica (applicationintent=ReadOnly), which takes no writes")
	}
	return nil
}

// signIn checks how the log-in is made, and spells fedauth as the driver compares it.
func signIn(text string, parsed *url.URL, config msdsn.Config) (string, error) {
	asked := config.Parameters["fedauth"]
	if asked == "" {
		if config.User == "" && runtime.GOOS != "windows" { // there the process's own account signs in
			return "", errors.New("names no user: give user:password, or fedauth=" + azuread.ActiveDirectoryWorkloadIdentity + " for a sign-in without a password")
		}
		return text, nil
	}
	at := slices.IndexFunc(fedAuths, func(known string) bool { return strings.EqualFold(known, asked) })
	if at < 0 {
		return "", fmt.Errorf("fedauth=%s is none that a service can use: use one of %s", asked, strings.Join(fedAuths, ", "))
	}
	if config.Encryption == msdsn.EncryptionDisabled {
		return "", fmt.Errorf("fedauth=%s needs encrypt=true: the token would travel in the clear", asked)
	}
	query := parsed.Query()
	for name := range query {
		if strings.EqualFold(name, "fedauth") {
			query.Del(name)
		}
	}
	query.Set("fedauth", fedAuths[at])
	spelled := *parsed
	spelled.RawQuery = query.Encode()
	if _, err := azuread.NewConnector(spelled.String()); err != nil {
		return "", fmt.Errorf("fedauth=%s: %w", asked, err)
	}
	if fedAuths[at] == azuread.ActiveDirectoryWorkloadIdentity {
		return spelled.String(), checkWorkloadIdentity(config.Parameters)
	}
	return spelled.String(), nil
}

// checkWorkloadIdentity refuses a workload identity of which a part is missing: in Kubernetes its webhook sets the environment.
func checkWorkloadIdentity(parameters map[string]string) error {
	client, tenant, _ := strings.Cut(parameters[msdsn.UserID], "@")
	_, err := azidentity.NewWorkloadIdentityCredential(&azidentity.WorkloadIdentityCredentialOptions{
		ClientID: client, TenantID: tenant, TokenFilePath: parameters["tokenfilepath"],
	})
	if err != nil {
		return fmt.Errorf("fedauth=%s cannot work here: %w", azuread.ActiveDirectoryWorkloadIdentity, err)
	}
	return nil
}

// sqlServerConnector opens connections within loginTimeout. The driver itself reads an answer to its log-in for as long as the server
// keeps the connection open, whatever becomes of the context.
type sqlServerConnector struct{ *mssql.Connector }

func newSQLServerConnector(name string) (driver.Connector, error) {
	connector, err := azuread.NewConnector(name)
	if err != nil {
		return nil, err
	}
	connector.Dialer = loginDialer{&net.Dialer{KeepAlive: 30 * time.Second}}
	return sqlServerConnector{connector}, nil
}

// Connect implements driver.Connector.
func (c sqlServerConnector) Connect(ctx context.Context) (driver.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, loginTimeout)
	defer cancel()
	pending := &login{}
	stop := context.AfterFunc(ctx, pending.cut)
	conn, err := c.Connector.Connect(context.WithValue(ctx, loginKey{}, pending))
	inTime := stop()
	switch {
	case err == nil && inTime:
		return conn, nil
	case err == nil:
		_ = conn.Close()
		err = ctx.Err()
	case ctx.Err() != nil:
		err = errors.Join(ctx.Err(), err)
	default:
		return nil, err
	}
	return nil, fmt.Errorf("the database did not answer the log-in within %s, or the caller gave up: %w", loginTimeout, err)
}

type loginKey struct{}

// login holds the connections of a log-in that is under way.
type login struct {
	mu    sync.Mutex
	conns []net.Conn
	over  bool
}

// cut closes the connections, so that what reads from them ends.
func (l *login) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.over = true
	for _, conn := range l.conns {
		_ = conn.Close()
	}
}

func (l *login) add(conn net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conns = append(l.conns, conn)
	if l.over {
		_ = conn.Close()
	}
}

// loginDialer notes each connection with the log-in that it is for.
type loginDialer struct{ dialer *net.Dialer }

// DialContext implements mssql.Dialer.
func (d loginDialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := d.dialer.DialContext(ctx, network, address)
	if pending, ok := ctx.Value(loginKey{}).(*login); ok && err == nil {
		pending.add(conn)
	}
	return conn, err
}
