package transport

import (
	"net/netip"
	"slices"
	"syscall"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/clusters/kubeconfig"
)

// IPv6 prefixes whose addresses embed an IPv4 address and route to it.
var (
	nat64      = netip.MustParsePrefix("64:ff9b::/96") // RFC 6052
	compatible = netip.MustParsePrefix("::/96")        // RFC 4291, 2.5.5.1
	sixToFour  = netip.MustParsePrefix("2002::/16")    // RFC 3056
)

// forbiddenPrefixes are ranges that no API server may use, in addition to those that package netip
// classifies: reserved and site-local addresses, and the metadata services of clouds, which hand
// out credentials.
var forbiddenPrefixes = prefixes(
	"0.0.0.0/8", "240.0.0.0/4", // RFC 1122, 3.2.1.3; RFC 1112, 4
	"fec0::/10",              // RFC 3879
	"64:ff9b:1::/48",         // RFC 8215: local use, the network decides where it leads
	"100.100.100.200/32",     // Alibaba Cloud
	"168.63.129.16/32",       // Azure
	"192.0.0.192/32",         // Oracle Cloud
	"fd00:ec2::/32",          // AWS
	"fd20:ce::254/128",       // Google Cloud
	"fd00:c1::a9fe:a9fe/128", // Oracle Cloud
)

func prefixes(texts ...string) (all []netip.Prefix) {
	for _, text := range texts {
		all = append(all, netip.MustParsePrefix(text))
	}
	return all
}

// checkAddress returns the Control function of a dialer. The function rejects addresses that no
// member may have. It runs when an address is dialled, so a later DNS answer cannot bypass it.
func checkAddress(allowLoopback bool) func(network, address string, c syscall.RawConn) error {
	return func(_, address string, _ syscall.RawConn) error {
		dialled, err := netip.ParseAddrPort(address)
		if err != nil {
			return rejectAddress("the server's address cannot be parsed")
		}
		return CheckAddress(dialled.Addr(), allowLoopback)
	}
}

// CheckAddress returns a [kubeconfig.RejectedError] for an address that no member may have.
func CheckAddress(address netip.Addr, allowLoopback bool) error {
	ip := unwrapEmbeddedIPv4(address)
	switch {
	case ip.IsLoopback() && allowLoopback:
		return nil
	case ip.IsLoopback():
		return rejectAddress("the server's address is a loopback address; --allow-loopback-members permits it")
	case ip.IsLinkLocalUnicast(), ip.IsMulticast(), ip.IsUnspecified(),
		slices.ContainsFunc(forbiddenPrefixes, func(p netip.Prefix) bool { return p.Contains(ip) }):
		return rejectAddress("the server's address is link-local, multicast, unspecified, reserved or of a metadata service; a member cannot have it")
	}
	return nil
}

func rejectAddress(message string) error {
	return &kubeconfig.RejectedError{Reason: v1alpha1.ReasonServerRefused, Message: message}
}

// unwrapEmbeddedIPv4 returns the IPv4 address that an IPv6 address leads to, or the address itself.
func unwrapEmbeddedIPv4(ip netip.Addr) netip.Addr {
	ip = ip.Unmap().WithZone("")
	bytes := ip.As16()
	switch {
	case nat64.Contains(ip), compatible.Contains(ip) && !ip.IsLoopback() && !ip.IsUnspecified():
		return netip.AddrFrom4([4]byte(bytes[12:]))
	case sixToFour.Contains(ip):
		return netip.AddrFrom4([4]byte(bytes[2:6]))
	}
	return ip
}
