package ui

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"path"
	"time"

	corev1 "k8s.io/api/core/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	hubclient "github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/hub"
)

// page has the files that `make page` builds from page/src.
//
//go:embed page/dist
var page embed.FS

const (
	apiPrefix = "/api/"
	// streamInterval is the least time between two changes that a page gets.
	streamInterval = 250 * time.Millisecond
	// maxEvent is the largest number of bytes of objects in one event.
	maxEvent = 1 << 20
	// writeTimeout is how long a browser may take to read one event.
	writeTimeout = 30 * time.Second
)

// Options configure a [Server].
type Options struct {
	// Config is how the caller reaches the hub.
	Config *rest.Config
	// Context is the name of the kubeconfig context, for the head of the page. It may be empty.
	Context string
	// HubFlags are the flags by which kubectl reaches the same hub, such as --context=prod. The
	// commands on the page have them, so they must hold no credential.
	HubFlags []string
	// Namespace is the only namespace that is shown. It is empty for all.
	Namespace string
	// OperatorNamespace has the Lease of the operator. If it is empty, it is not known whether the
	// operator runs.
	OperatorNamespace string
	// Address is a loopback address and a port. Port 0 is any free port.
	Address string
}

// Server serves the page. Use [Listen].
type Server struct {
	listener net.Listener
	http     *http.Server
	token    string
	fleet    *fleet
	events   corev1client.EventsGetter
	history  hubclient.Client
	hubFlags []string
}

// Listen reserves the address, and returns a server that answers after Serve is called.
func Listen(options Options) (*Server, error) {
	fleet, err := newFleet(options)
	if err != nil {
		return nil, fmt.Errorf("configure the client of the hub: %w", err)
	}
	events, err := corev1client.NewForConfig(options.Config)
	if err != nil {
		return nil, fmt.Errorf("configure the client of the hub: %w", err)
	}
	history, err := newHistoryClient(options.Config)
	if err != nil {
		return nil, fmt.Errorf("configure the client of the hub: %w", err)
	}
	if err := checkLoopback(options.Address); err != nil {
		return nil, err
	}
	listener, err := new(net.ListenConfig).Listen(context.Background(), "tcp", options.Address)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", options.Address, err)
	}
	s := &Server{listener: listener, token: newToken(), fleet: fleet, events: events, history: history, hubFlags: options.HubFlags}
	s.http = &http.Server{
		Handler:           &guard{next: s.handler(), token: s.token, hosts: hostsOf(listener.Addr())},
		ReadHeaderTimeout: 10 * time.Second,
		MaxHeaderBytes:    16 << 10,
	}
	return s, nil
}

// checkLoopback refuses an address that other machines can reach.
func checkLoopback(address string) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("address %q: %w: use 127.0.0.1:PORT", address, err)
	}
	if ip := net.ParseIP(host); ip == nil || !ip.IsLoopback() {
		return fmt.Errorf("address %q can be reached from other machines: use 127.0.0.1:PORT", address)
	}
	return nil
}

// hostsOf returns the values of the header Host that name a server with this address.
func hostsOf(address net.Addr) []string {
	_, port, _ := net.SplitHostPort(address.String())
	return []string{address.String(), net.JoinHostPort("localhost", port)}
}

// URL returns the address of the page, with its token.
func (s *Server) URL() string { return fmt.Sprintf("http://%s/#token=%s", s.listener.Addr(), s.token) }

// Serve watches the hub and serves the page until the context ends, and then returns nil. The watches
// may end later: while the hub does not answer, those of client-go wait out their back-off.
func (s *Server) Serve(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s.http.BaseContext = func(net.Listener) context.Context { return ctx }
	go s.fleet.run(ctx)
	stopped := context.AfterFunc(ctx, func() { _ = s.http.Close() })
	defer stopped()
	err := s.http.Serve(s.listener)
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("serve the page: %w", err)
}

func (s *Server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/", serveFile)
	mux.HandleFunc(apiPrefix+"stream", s.stream)
	mux.HandleFunc(apiPrefix+"app", s.appDetail)
	mux.HandleFunc(apiPrefix+"cluster", s.clusterDetail)
	mux.HandleFunc(apiPrefix+"changes", s.revisionChanges)
	return mux
}

// contentTypes are those of the files of the page. Go's own table depends on the machine.
var contentTypes = map[string]string{
	".html": "text/html; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".svg":  "image/svg+xml",
}

// serveFile serves a file of the built page. docs/decisions/the-built-page-is-committed.md says why it
// is committed.
func serveFile(w http.ResponseWriter, r *http.Request) {
	name := path.Clean("/" + r.URL.Path)
	if name == "/" {
		name = "/index.html"
	}
	content, err := fs.ReadFile(page, "page/dist"+name)
	if err != nil {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", contentTypes[path.Ext(name)])
	_, _ = w.Write(content)
}

// stream sends the state, and then its changes, as server-sent events, until the page closes. A
// page that hears nothing for a while knows that the stream is lost, because the state of the hub
// is sent again at least every probeInterval.
func (s *Server) stream(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	control := http.NewResponseController(w)
	alive := time.NewTicker(probeInterval)
	defer alive.Stop()
	seen := uint64(0)
	for {
		change, version, news, err := s.fleet.feed.since(seen)
		if err != nil {
			return
		}
		seen = version
		change.Hub = s.fleet.hub()
		for _, part := range change.split(maxEvent) {
			if err := control.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
				return
			}
			if err := writeEvent(w, part); err != nil {
				return
			}
			if err := control.Flush(); err != nil {
				return
			}
		}
		select {
		case <-r.Context().Done():
			return
		case <-time.After(streamInterval):
		}
		select {
		case <-r.Context().Done():
			return
		case <-news:
		case <-alive.C:
		}
	}
}

// writeEvent writes a server-sent event. JSON has no line breaks, so it is one line.
func writeEvent(w io.Writer, change Change) error {
	data, err := json.Marshal(change)
	if err != nil {
		return err
	}
	for _, part := range [][]byte{[]byte("data: "), data, []byte("\n\n")} {
		if _, err := w.Write(part); err != nil {
			return err
		}
	}
	return nil
}

// appDetail answers with the [Detail] of an AppService, or of an AppService on one cluster.
func (s *Server) appDetail(w http.ResponseWriter, r *http.Request) {
	namespace, name, cluster := r.FormValue("namespace"), r.FormValue("name"), r.FormValue("cluster")
	app, exists := s.fleet.app(namespace, name)
	if !exists {
		http.Error(w, fmt.Sprintf("there is no AppService %s in namespace %s any more", name, namespace), http.StatusNotFound)
		return
	}
	entries := s.fleet.entries(app)
	events, err := listEvents(r.Context(), s.events, "AppService", namespace, name)
	if cluster != "" {
		answer(w, cellDetail(app, entries, cluster, s.fleet.allMembers(), s.hubFlags), events, err, cluster)
		return
	}
	known := past{events: events, hasNoEvents: err != nil}
	var storedErr error
	known.stored, storedErr = s.readStored(r.Context(), app)
	known.storedProblem = describeHistory(storedErr)
	answer(w, appDetail(app, entries, known, s.hubFlags), events, err, "")
}

// clusterDetail answers with the [Detail] of a MemberCluster.
func (s *Server) clusterDetail(w http.ResponseWriter, r *http.Request) {
	name := r.FormValue("name")
	member, exists := s.fleet.member(name)
	if !exists {
		http.Error(w, fmt.Sprintf("there is no MemberCluster %s any more, or you may not read it", name), http.StatusNotFound)
		return
	}
	events, err := listEvents(r.Context(), s.events, "MemberCluster", "", name)
	answer(w, memberDetail(member, s.hubFlags), events, err, "")
}

// answer adds the events of an object to a detail, or why they could not be read, and writes it.
func answer(w http.ResponseWriter, detail Detail, events []corev1.Event, err error, cluster string) {
	if err != nil {
		detail.EventsProblem = describeProblem("events", err)
	}
	detail.Events = newestEvents(events, cluster)
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(detail)
}
