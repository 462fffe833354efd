package crash

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
)

// request is a request of the operator.
type request struct {
	at        time.Time
	cluster   string
	verb      string // the HTTP method, or WATCH
	resource  string // the path, if that is of no resource, such as /version
	sub       string
	namespace string // of a Namespace, its name
	name      string
	changes   bool // it changes something and is numbered
	counts    bool // it writes only the number of AppServices of a MemberCluster
	code      int  // of the response; 0 if there was none
}

// kind returns what is the same for a request in each lifecycle.
func (r request) kind() string {
	where := "a member"
	if r.cluster == hubName {
		where = "the hub"
	}
	return fmt.Sprintf("%s %s on %s", r.verb, r.full(), where)
}

func (r request) full() string { return strings.TrimSuffix(r.resource+"/"+r.sub, "/") }

func (r request) String() string {
	return fmt.Sprintf("%s %s %s/%s on %s (%d)", r.verb, r.full(), r.namespace, r.name, r.cluster, r.code)
}

// stateless are the resources that are not part of any state.
var stateless = []string{"events", "leases", "subjectaccessreviews", "selfsubjectaccessreviews", "localsubjectaccessreviews", "selfsubjectrulesreviews", "tokenreviews", "selfsubjectreviews"}

// describe describes a request as an API server interprets it. The body is needed for a POST, whose
// path does not name the object.
func describe(cluster string, r *http.Request, body []byte) request {
	d := request{at: time.Now(), cluster: cluster, verb: r.Method, resource: r.URL.Path}
	if r.URL.Query().Get("watch") != "" && r.URL.Query().Get("watch") != "false" {
		d.verb = "WATCH"
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
		d.namespace, words = words[1], words[2:]
	}
	words = append(words, "", "")
	d.resource, d.name, d.sub = words[0], words[1], words[2]
	if d.name == "" && r.Method == http.MethodPost {
		d.name = nameIn(body)
	}
	if d.resource == "namespaces" {
		d.namespace = d.name
	}
	writes := slices.Contains([]string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}, r.Method)
	d.changes = writes && !r.URL.Query().Has("dryRun") && !slices.Contains(stateless, d.resource)
	d.counts = d.full() == "memberclusters/status" && isCount(body)
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
