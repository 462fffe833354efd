package clusters_test

import (
	"bufio"
	"crypto/sha256"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/internal/servertest"
	"github.com/fleetwright/fleetwright/internal/wait"
)

// apiServer is a real API server with an audit log.
type apiServer struct {
	environment *envtest.Environment
	release     func() // its address
	admin       client.Client
	users       sync.Mutex

	auditMu  sync.Mutex
	auditLog string
	// audited is the number of bytes of the log that were read. requestsOf has the requests in
	// them.
	audited    int64
	requestsOf map[string][]request
	auditIDs   map[string]bool
}

const auditPolicy = `{"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"], "rules": [
	{"level": "None", "userGroups": ["system:masters"]}, {"level": "Metadata"}]}`

func startAPIServer(dir string, crds ...string) (*apiServer, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	s := &apiServer{requestsOf: map[string][]request{}, auditIDs: map[string]bool{}, environment: servertest.New(crds...)}
	policy := filepath.Join(dir, "policy.json")
	s.auditLog = filepath.Join(dir, "audit.log")
	if err := os.WriteFile(policy, []byte(auditPolicy), 0o600); err != nil {
		return nil, err
	}
	server := s.environment.ControlPlane.GetAPIServer()
	server.CertDir = dir // otherwise the certificates are deleted when it stops
	address, release, err := reserveAddress(memberAddresses)
	if err != nil {
		return nil, err
	}
	serverAddresses.add(address)
	s.release = release
	if server.SecureServing.Address, server.SecureServing.Port, err = net.SplitHostPort(address); err != nil {
		release()
		return nil, err
	}
	server.Configure().Set("audit-policy-file", policy).Set("audit-log-path", s.auditLog)
	config, err := s.environment.Start()
	if err != nil { // some of its processes may be running
		return nil, errors.Join(err, s.stop())
	}
	if s.admin, err = client.New(config, client.Options{Scheme: testScheme}); err != nil {
		return nil, err
	}
	system := &corev1.Namespace{}
	var found error
	for deadline := time.Now().Add(wait.Patience); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if found = s.admin.Get(ctx, client.ObjectKey{Name: metav1.NamespaceSystem}, system); found == nil {
			break
		}
	}
	return s, found
}

// stop stops the server and its etcd.
func (s *apiServer) stop() error {
	defer s.release()
	return s.environment.Stop()
}

// userConfig returns a configuration for a user of the server, with a new client certificate.
func (s *apiServer) userConfig(name string) *rest.Config {
	s.users.Lock() // envtest's certificate authority is not safe for concurrent use
	defer s.users.Unlock()
	user, err := s.environment.AddUser(envtest.User{Name: name}, nil)
	if err != nil {
		panic(err)
	}
	return rest.CopyConfig(user.Config())
}

// address returns the server's host and port.
func (s *apiServer) address() string {
	at, err := url.Parse(s.environment.Config.Host)
	if err != nil {
		panic(err)
	}
	return at.Host
}

// request is a request that the API server served.
type request struct {
	Verb string
	URI  string `json:"requestURI"`
	User struct {
		Username string
		Extra    map[string][]string
	}
	ObjectRef      struct{ Resource, Name string }
	ResponseStatus struct{ Code int }
}

// succeeded reports whether the API server did what was asked. A write with an outdated resource
// version, for example, is refused and changes nothing.
func (r request) succeeded() bool { return r.ResponseStatus.Code < 300 }

// requests returns the requests of a user, each of them once. A watch is included when it has
// begun.
func (s *apiServer) requests(user string) []request {
	s.auditMu.Lock()
	defer s.auditMu.Unlock()
	if err := s.readAuditLog(); err != nil {
		panic(err)
	}
	return slices.Clone(s.requestsOf[user])
}

// readAuditLog reads what was added to the audit log since the last call.
func (s *apiServer) readAuditLog() error {
	file, err := os.Open(s.auditLog)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	if _, err := file.Seek(s.audited, io.SeekStart); err != nil {
		return err
	}
	for lines := bufio.NewReader(file); ; {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil // an incomplete last line is still being written
		}
		var entry struct {
			request
			AuditID string
		}
		if err := errors.Join(err, json.Unmarshal(line, &entry)); err != nil {
			return err
		}
		s.audited += int64(len(line))
		if !s.auditIDs[entry.AuditID] {
			s.auditIDs[entry.AuditID] = true
			s.requestsOf[entry.User.Username] = append(s.requestsOf[entry.User.Username], entry.request)
		}
	}
}

// listRequests returns the requests of a user that list a watched kind. The operator also lists the
// nodes, at any time after the engagement.
func (s *apiServer) listRequests(user string) (lists []string) {
	for _, r := range s.requests(user) {
		isList := r.Verb == "list" || strings.Contains(r.URI, "sendInitialEvents=true")
		if isList && r.ObjectRef.Resource != "nodes" {
			lists = append(lists, r.URI)
		}
	}
	return lists
}

// writeRequests returns the requests of an operator that write, and none of an operator that ran
// before it for the same Secrets. The audit log may have a request a moment after its effect, so it
// does not show which requests were made before a moment.
func (s *apiServer) writeRequests(o *operator) (writes []string) {
	for _, r := range s.requests(o.user) {
		if slices.Contains(r.User.Extra[credentialIDExtra], o.credentialID) && !slices.Contains([]string{"get", "list", "watch"}, r.Verb) {
			writes = append(writes, r.Verb+" "+r.URI)
		}
	}
	return writes
}

var testScheme = func() *runtime.Scheme {
	kinds := runtime.NewScheme()
	if err := errors.Join(scheme.AddToScheme(kinds), v1alpha1.AddToScheme(kinds)); err != nil {
		panic(err)
	}
	return kinds
}()

const credentialIDExtra = "authentication.kubernetes.io/credential-id"

// certificateID returns the ID of a configuration's client certificate in the audit log.
func certificateID(config *rest.Config) string {
	certificate, _ := pem.Decode(config.CertData)
	return fmt.Sprintf("X509SHA256=%x", sha256.Sum256(certificate.Bytes))
}

// credentialIDs returns the credentials that a user presented, in order.
func (s *apiServer) credentialIDs(user string) (ids []string) {
	for _, r := range s.requests(user) {
		for _, id := range r.User.Extra[credentialIDExtra] {
			if !slices.Contains(ids, id) {
				ids = append(ids, id)
			}
		}
	}
	return ids
}

// readObject reads the first object of the given kind from a file with several objects.
func readObject(path string, object client.Object) error {
	raw, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	kind, err := apiutil.GVKForObject(object, testScheme)
	if err != nil {
		return err
	}
	for _, document := range strings.Split(string(raw), "\n---\n") {
		if slices.Contains(strings.Split(document, "\n"), "kind: "+kind.Kind) {
			return yaml.Unmarshal([]byte(document), object)
		}
	}
	return fmt.Errorf("%s has no %s", path, kind.Kind)
}
