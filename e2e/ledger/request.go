package ledger

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/fleetwright/fleetwright/e2e/framework"
)

// Request is a request of the operator.
type Request struct {
	At        time.Time
	Cluster   string
	Verb      string // the HTTP method, or WATCH
	Resource  string // the path, if that is of no resource, such as /version
	Sub       string
	Namespace string // of a Namespace, its name
	Name      string
	Changes   bool // it changes something and is numbered
	Counts    bool // it writes only the number of AppServices of a MemberCluster
	Code      int  // of the response; 0 if there was none
}

// Kind returns what is the same for a request in each lifecycle.
func (r Request) Kind() string {
	where := "a member"
	if r.Cluster == framework.HubName {
		where = "the hub"
	}
	return fmt.Sprintf("%s %s on %s", r.Verb, r.full(), where)
}

func (r Request) full() string { return strings.TrimSuffix(r.Resource+"/"+r.Sub, "/") }

func (r Request) String() string {
	return fmt.Sprintf("%s %s %s/%s on %s (%d)", r.Verb, r.full(), r.Namespace, r.Name, r.Cluster, r.Code)
}

// Stateless are the resources that are not part of any state.
var Stateless = []string{"events", "leases", "subjectaccessreviews", "selfsubjectaccessreviews", "localsubjectaccessreviews", "selfsubjectrulesreviews", "tokenreviews", "selfsubjectreviews"}

// Describe describes a request as an API server interprets it. The body is needed for a POST, whose
// path does not name the object.
func Describe(cluster string, r *http.Request, body []byte) Request {
	d := Request{At: time.Now(), Cluster: cluster, Verb: r.Method, Resource: r.URL.Path}
	if r.URL.Query().Get("watch") != "" && r.URL.Query().Get("watch") != "false" {
		d.Verb = "WATCH"
	}
	words := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	switch {
	case words[0] == "api" && len(words) > 2:
		words = words[2:]
	case words[0] == "apis" && len(words) > 3:
		words = words[3:]
	default:
		return d
	}
	if words[0] == "namespaces" && len(words) > 2 && words[2] != "status" && words[2] != "finalize" {
		d.Namespace, words = words[1], words[2:]
	}
	words = append(words, "", "")
	d.Resource, d.Name, d.Sub = words[0], words[1], words[2]
	if d.Name == "" && r.Method == http.MethodPost {
		d.Name = nameIn(body)
	}
	if d.Resource == "namespaces" {
		d.Namespace = d.Name
	}
	writes := slices.Contains([]string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}, r.Method)
	d.Changes = writes && !r.URL.Query().Has("dryRun") && !slices.Contains(Stateless, d.Resource)
	d.Counts = d.full() == "memberclusters/status" && isCount(body)
	return d
}

// isCount reports whether a merge patch of a MemberCluster contains only status.appServices. The
// number follows the AppServices of the test.
func isCount(body []byte) bool {
	var patch map[string]map[string]any
	if json.Unmarshal(body, &patch) != nil {
		return false
	}
	_, hasCount := patch["status"]["appServices"]
	return hasCount && len(patch) == 1 && len(patch["status"]) == 1
}

// nameIn returns the name of an object, in JSON or, of a built-in kind, in protobuf.
func nameIn(body []byte) string {
	var named metav1.PartialObjectMetadata
	if json.Unmarshal(body, &named) == nil {
		return named.Name
	}
	object, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
	if err != nil {
		return ""
	}
	accessor, err := meta.Accessor(object)
	if err != nil {
		return ""
	}
	return accessor.GetName()
}
