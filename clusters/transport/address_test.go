package transport

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/clusters/kubeconfig"
)

// dialledAddresses has kinds of addresses, and the reason with which the dialer rejects them.
var dialledAddresses = map[string]struct {
	addresses []string
	want      string
}{
	"loopback":                            {[]string{"127.0.0.1:443", "127.1.2.3:443", "[::1]:443", "[::1%lo]:443"}, v1alpha1.ReasonServerRefused},
	"loopback in the form of IPv6":        {[]string{"[::ffff:127.0.0.1]:443", "[::ffff:7f00:1]:443"}, v1alpha1.ReasonServerRefused},
	"link-local, which includes metadata": {[]string{"169.254.169.254:80", "169.254.170.2:80", "[fe80::1]:443", "[fe80::a9fe:a9fe%eth0]:80"}, v1alpha1.ReasonServerRefused},
	"link-local in the form of IPv6":      {[]string{"[::ffff:169.254.169.254]:80", "[::ffff:a9fe:a9fe%eth0]:80"}, v1alpha1.ReasonServerRefused},
	"multicast":                           {[]string{"224.0.0.1:443", "[ff02::1]:443", "[ff05::1]:443"}, v1alpha1.ReasonServerRefused},
	"unspecified":                         {[]string{"0.0.0.0:443", "[::]:443", "[::ffff:0.0.0.0]:443"}, v1alpha1.ReasonServerRefused},
	"IPv4 addresses of these kinds in IPv6 addresses": {[]string{
		"[64:ff9b::127.0.0.1]:443", "[64:ff9b::a9fe:a9fe]:80", "[64:ff9b:1::a9fe:a9fe]:80", "[::127.0.0.1]:443", "[::169.254.169.254]:80",
		"[2002:7f00:1::]:443", "[2002:a9fe:a9fe::1]:80",
	}, v1alpha1.ReasonServerRefused},
	"reserved":                              {[]string{"0.1.2.3:443", "240.0.0.1:443", "255.255.255.255:443", "[fec0::1]:443"}, v1alpha1.ReasonServerRefused},
	"metadata of clouds at other addresses": {[]string{"100.100.100.200:80", "168.63.129.16:80", "192.0.0.192:80", "[fd00:ec2::254]:80", "[fd20:ce::254]:80", "[fd00:c1::a9fe:a9fe]:80"}, v1alpha1.ReasonServerRefused},
	"other public and private addresses":    {[]string{"192.0.2.1:443", "10.0.0.1:443", "192.168.0.1:443", "[2001:db8::1]:443", "[fd00::1]:443", "[64:ff9b::10.0.0.1]:443", "100.64.0.1:443"}, v1alpha1.ReasonAccepted},
}

func TestAddress_that_is_hostile_is_refused_when_it_is_dialled(t *testing.T) {
	for name, test := range dialledAddresses {
		for _, address := range test.addresses {
			t.Run(name+" "+address, func(t *testing.T) {
				got := v1alpha1.ReasonAccepted
				if err := checkAddress(false)("tcp", address, nil); err != nil {
					got = err.(*kubeconfig.RejectedError).Reason //nolint:errorlint // it is returned as such
				}
				if got != test.want {
					t.Errorf("%s, want %s", got, test.want)
				}
			})
		}
	}
}

// The answer of a DNS server may change between two dials of a connection.
func TestAddress_is_checked_at_each_dial(t *testing.T) {
	check := checkAddress(false)
	for range 3 {
		if err := check("tcp", "203.0.113.7:6443", nil); err != nil {
			t.Fatal(err)
		}
		if err := check("tcp", "169.254.169.254:80", nil); err == nil {
			t.Error("a metadata service was dialled after an address that is allowed")
		}
	}
}

// docs/kubeconfig.md lists exactly these kinds of addresses, each with its reason.
func TestAddresses_that_are_dialled_are_documented(t *testing.T) {
	document, err := os.ReadFile("../../docs/kubeconfig.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(document), "| An address that is dialled |")
	if !found {
		t.Fatal("docs/kubeconfig.md has no table of addresses")
	}
	want, got := map[string]string{}, map[string]string{}
	for name, test := range dialledAddresses {
		want[name] = test.want
	}
	for i, line := range strings.Split(table, "\n") {
		cells := strings.Split(strings.Trim(line, "| "), " | ")
		if i > 1 && len(cells) != 3 {
			break
		}
		if i > 1 {
			got[cells[0]] = strings.Trim(cells[2], "`")
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the document differs from the tests (-tests +document)\n%s", diff)
	}
}

func TestCheckAddress_permits_loopback_only_on_request(t *testing.T) {
	tests := []struct {
		address                 string
		byDefault, withLoopback bool // whether the address is permitted without and with AllowLoopback
	}{
		{"10.0.0.1:6443", true, true},
		{"192.168.1.1:6443", true, true},
		{"203.0.113.1:443", true, true},
		{"[fd00::1]:6443", true, true},
		{"[2001:db8::1]:6443", true, true},
		{"127.0.0.1:6443", false, true},
		{"127.255.255.254:6443", false, true},
		{"[::1]:6443", false, true},
		{"[::ffff:127.0.0.1]:6443", false, true},
		{"0.0.0.0:6443", false, false},
		{"[::]:6443", false, false},
		{"[::ffff:0.0.0.0]:6443", false, false},
		{"169.254.169.254:80", false, false},
		{"[::ffff:169.254.169.254]:80", false, false},
		{"[fe80::1%eth0]:6443", false, false},
		{"224.0.0.1:6443", false, false},
		{"[ff02::1]:6443", false, false},
		{"canary", false, false},
	}
	for _, test := range tests {
		t.Run(test.address, func(t *testing.T) {
			byDefault := checkAddress(false)("tcp", test.address, nil)
			withLoopback := checkAddress(true)("tcp", test.address, nil)
			if (byDefault == nil) != test.byDefault || (withLoopback == nil) != test.withLoopback {
				t.Errorf("by default %v, with AllowLoopback %v", byDefault, withLoopback)
			}
			for _, err := range []error{byDefault, withLoopback} {
				var refusal *kubeconfig.RejectedError
				if err != nil && (!errors.As(err, &refusal) || refusal.Reason != v1alpha1.ReasonServerRefused || strings.Contains(err.Error(), test.address)) {
					t.Errorf("refused with %+v", err)
				}
			}
		})
	}
}
