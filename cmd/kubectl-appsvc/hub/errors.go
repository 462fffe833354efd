package hub

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// ExitNegative is the exit code of a command that worked and whose answer is no.
const ExitNegative = 3

// ExitError ends the process with an exit code. Its message is printed unless it is empty.
type ExitError struct {
	Code    int
	Message string
}

// Error is part of error.
func (e ExitError) Error() string { return e.Message }

// NotFoundError says that an object of the hub does not exist.
type NotFoundError string

// Error is part of error.
func (e NotFoundError) Error() string { return string(e) }

// NoSuchCluster returns the error of a MemberCluster that does not exist.
func NoSuchCluster(name string) error {
	return NotFoundError("the hub has no cluster " + name + ": see kubectl appsvc clusters")
}

// Describe returns the message of an error, with what to do about it where that is known.
func Describe(err error) string {
	switch connection := unreachable(err); {
	case connection != "":
		return connection
	case isUnknownKind(err):
		return fmt.Sprintf("%v: the cluster of this context has no Fleetwright, or another version of it: select the hub with --context, or install Fleetwright there (docs/install.md)", err)
	case apierrors.IsForbidden(err):
		return err.Error() + roleFor(err)
	case apierrors.IsUnauthorized(err):
		return fmt.Sprintf("%v: the cluster does not accept the credentials of this context: log in again", err)
	}
	return err.Error()
}

// roleFor says which role has the permission that an error asks for. It returns "" if it is another
// one, or if an admission policy refused the request, whose message says what to do.
func roleFor(err error) string {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil || !strings.Contains(err.Error(), "cannot ") {
		return ""
	}
	kind, isOfAllNamespaces := status.Status().Details.Kind, strings.Contains(err.Error(), " at the cluster scope")
	switch {
	case kind == "memberclusters":
		return ": " + MembersRole + ", or of fleetwright-fleet-admin to change clusters"
	case kind == "appservices" && isOfAllNamespaces:
		return ": " + MembersRole + ", or name a namespace that you may read with --namespace"
	case kind == "appservices", kind == "appserviceslices", kind == "controllerrevisions":
		return ": ask an administrator of the hub for the ClusterRole fleetwright-view, or fleetwright-edit to change AppServices"
	case kind == "events":
		return ": ask an administrator of the hub for the ClusterRole view in this namespace"
	}
	return ": ask an administrator for this permission"
}

// unreachable describes an error of a connection, and returns "" if err is none.
func unreachable(err error) string {
	var request *url.Error
	if !errors.As(err, &request) {
		return ""
	}
	server := request.URL
	if parsed, err := url.Parse(request.URL); err == nil {
		server = parsed.Scheme + "://" + parsed.Host
	}
	var network *net.OpError
	isNetwork := errors.As(request.Err, &network)
	switch {
	case isNetwork && network.Op == "dial":
		return fmt.Sprintf("%s does not answer (%v): check the context, the network and the VPN", server, network.Err)
	case isNetwork && network.Op == "remote error": // a TLS alert; the HTTP client may put its own names before it
		return fmt.Sprintf("the request to %s failed: %v", server, network)
	case request.Timeout():
		return fmt.Sprintf("%s does not answer (%v): check the context, the network and the VPN", server, request.Err)
	}
	return fmt.Sprintf("the request to %s failed: %v", server, request.Err) // such as a certificate, or a program for credentials
}
