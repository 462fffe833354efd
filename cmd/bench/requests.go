package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// counts are numbers of requests by verb, in the words of the API server's metrics. Writes of
// Events are counted under [eventVerb].
type counts map[string]int

const eventVerb = "EVENT"

// writeVerbs are the verbs of writes, without those of Events.
var writeVerbs = []string{"POST", "PUT", "PATCH", "APPLY", "DELETE", "DELETECOLLECTION"}

// isBackground reports whether API servers request a resource for themselves, and the writers do
// not. API servers read ConfigMaps all the time and write them only at the start. Requests that store
// nothing, such as for a token, are no writes.
func isBackground(verb, resource, subresource string) bool {
	switch resource {
	case "serviceaccounts":
		return subresource == "token"
	case "subjectaccessreviews", "selfsubjectaccessreviews", "tokenreviews":
		return true
	case "configmaps":
		return !slices.Contains(writeVerbs, verb)
	case "", "leases", "flowschemas", "prioritylevelconfigurations", "apiservices",
		"endpointslices", "servicecidrs", "ipaddresses", "clusterroles", "clusterrolebindings", "roles", "rolebindings":
		return true
	}
	return false
}

// writes returns the number of writes without Events.
func (c counts) writes() (sum int) {
	for _, verb := range writeVerbs {
		sum += c[verb]
	}
	return sum
}

// reads returns the number of reads without watches, which are counted when they end.
func (c counts) reads() int { return c["GET"] + c["LIST"] }

// minus returns the difference.
func (c counts) minus(other counts) counts {
	difference := maps.Clone(c)
	for verb, n := range other {
		difference[verb] -= n
	}
	maps.DeleteFunc(difference, func(_ string, n int) bool { return n == 0 })
	return difference
}

func (c counts) plus(other counts) counts {
	sum := maps.Clone(c)
	for verb, n := range other {
		sum[verb] += n
	}
	return sum
}

// readRequests returns the requests that an API server has answered since its start, without the
// writes of this process.
func (s *server) readRequests(ctx context.Context) (counts, error) {
	content, err := s.get(ctx, "/metrics")
	if err != nil {
		return nil, fmt.Errorf("read the metrics of %s: %w", s.name, err)
	}
	all, err := parseRequests(content)
	if err != nil {
		return nil, fmt.Errorf("read the metrics of %s: %w", s.name, err)
	}
	return all.minus(s.writes.read()), nil
}

// parseRequests returns the requests of an API server's metrics.
func parseRequests(metrics []byte) (counts, error) {
	const name = "apiserver_request_total"
	var own bytes.Buffer // parsing only these lines takes a tenth of the time
	for line := range bytes.Lines(metrics) {
		if bytes.HasPrefix(line, []byte(name+"{")) {
			_, _ = own.Write(line) // a Buffer never fails
		}
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(&own)
	if err != nil {
		return nil, err
	}
	all := counts{}
	for _, metric := range families[name].GetMetric() {
		labels := labelsOf(metric)
		verb := labels["verb"]
		if isBackground(verb, labels["resource"], labels["subresource"]) {
			continue
		}
		if labels["resource"] == "events" && verb != "GET" && verb != "LIST" && verb != "WATCH" {
			verb = eventVerb
		}
		all[verb] += int(metric.GetUntyped().GetValue())
	}
	return all, nil
}

func labelsOf(metric *dto.Metric) map[string]string {
	labels := map[string]string{}
	for _, pair := range metric.GetLabel() {
		labels[pair.GetName()] = pair.GetValue()
	}
	return labels
}

// writeCounter counts the writes of a client.
type writeCounter struct {
	mu  sync.Mutex
	all counts
}

func (w *writeCounter) read() counts {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.all)
}

// wrap returns a round tripper that counts.
func (w *writeCounter) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		if verb := verbOf(r); verb != "" && !isBackground(verb, resourceOf(r.URL.Path), "") {
			w.mu.Lock()
			if w.all == nil {
				w.all = counts{}
			}
			w.all[verb]++
			w.mu.Unlock()
		}
		return next.RoundTrip(r)
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip is part of [http.RoundTripper].
func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// verbOf returns the verb of a write, or nothing.
func verbOf(r *http.Request) string {
	switch {
	case r.Method == http.MethodGet:
		return ""
	case r.Method == http.MethodPatch && strings.HasPrefix(r.Header.Get("Content-Type"), "application/apply-patch"):
		return "APPLY"
	default:
		return r.Method
	}
}

// resourceOf returns the resource in a path such as /apis/apps/v1/namespaces/x/deployments/y.
func resourceOf(path string) string {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	skip := 2 // api/v1
	if parts[0] == "apis" {
		skip = 3
	}
	if len(parts) > skip+2 && parts[skip] == "namespaces" {
		skip += 2
	}
	if len(parts) <= skip {
		return ""
	}
	return parts[skip]
}

// stored is what an API server stores in etcd. The AppServices have their managedFields there.
type stored struct{ objects, events, bytes, apps, appBytes int }

// bytesOfAnApp returns the mean size of an AppService, or 0.
func (s stored) bytesOfAnApp() float64 { return float64(s.appBytes) / float64(max(1, s.apps)) }

// readStored returns what the API server of a name stores.
func (s *servers) readStored(ctx context.Context, name string) (stored, error) {
	content, err := s.keyValues(ctx, "/"+name+"/")
	if err != nil {
		return stored{}, fmt.Errorf("read the objects of %s in etcd: %w", name, err)
	}
	var found stored
	for _, kv := range content {
		switch {
		case strings.Contains(string(kv.Key), "/events/"):
			found.events++
		case strings.Contains(string(kv.Key), "/"+v1alpha1.GroupVersion.Group+"/appservices/"):
			found.apps++
			found.appBytes += len(kv.Value)
			found.objects++
		default:
			found.objects++
		}
		found.bytes += len(kv.Key) + len(kv.Value)
	}
	return found, nil
}

type keyValue struct{ Key, Value []byte }

// keyValues returns the contents of etcd below a prefix, by the HTTP gateway of etcd.
func (s *servers) keyValues(ctx context.Context, prefix string) ([]keyValue, error) {
	end := []byte(prefix)
	end[len(end)-1]++
	query, err := json.Marshal(map[string]string{"key": base64.StdEncoding.EncodeToString([]byte(prefix)), "range_end": base64.StdEncoding.EncodeToString(end)})
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.etcd+"/v3/kv/range", bytes.NewReader(query))
	if err != nil {
		return nil, err
	}
	content, err := do(http.DefaultClient, request)
	if err != nil {
		return nil, err
	}
	var response struct {
		KVs []keyValue `json:"kvs"`
	}
	return response.KVs, json.Unmarshal(content, &response)
}
