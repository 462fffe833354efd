package clusters

import (
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestOptions_are_validated_and_defaulted(t *testing.T) {
	const valid = ""
	metadata := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "example.com/v1", Kind: "Site"}}
	tests := map[string]struct {
		change func(*Options)
		want   string // part of the error
	}{
		"only the required fields":     {func(*Options) {}, valid},
		"no scheme":                    {func(o *Options) { o.Scheme = nil }, "Scheme is required"},
		"no mapper":                    {func(o *Options) { o.Mapper = nil }, "Mapper is required"},
		"a negative QPS":               {func(o *Options) { o.QPS = -1 }, "QPS is -1"},
		"a negative burst":             {func(o *Options) { o.Burst = -1 }, "Burst is -1"},
		"a negative read rate":         {func(o *Options) { o.ReadRate = -1 }, "ReadRate is -1"},
		"a read burst below a chunk":   {func(o *Options) { o.ReadBurst = 1 }, "ReadBurst is 1"},
		"a list limit below an object": {func(o *Options) { o.MaxListBytes = 1 }, "MaxListBytes is 1"},
		"a negative connect timeout":   {func(o *Options) { o.ConnectTimeout = -1 }, "ConnectTimeout is -1ns"},
		"a probe interval of 1 ns":     {func(o *Options) { o.ProbeInterval = 1 }, "ProbeInterval is 1ns"},
		"a negative watch silence":     {func(o *Options) { o.WatchSilence = -1 }, "WatchSilence is -1ns"},
		"a negative connect limit":     {func(o *Options) { o.MaxConnecting = -1 }, "MaxConnecting is -1"},
		"a watched kind without a type in the scheme": {
			func(o *Options) { o.Watch = []client.Object{&appsv1.Deployment{}} }, "kind *v1.Deployment in Watch: no kind is registered",
		},
		"a watched kind that the mapper lacks": {
			func(o *Options) { o.Watch = []client.Object{metadata} }, `kind *v1.PartialObjectMetadata in Watch: no matches for kind "Site"`,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			o := Options{Scheme: runtime.NewScheme(), Mapper: meta.NewDefaultRESTMapper(nil)}
			test.change(&o)
			p, err := New(t.Context(), o)
			if (err == nil) != (test.want == valid) || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Fatalf("got %v, want %q", err, test.want)
			}
			if err != nil {
				return
			}
			if o := p.options; o.ConnectTimeout != 30*time.Second || o.ProbeInterval != 10*time.Second || o.QPS != 200 || o.UserAgent == "" || cap(o.slots.first) != DefaultMaxConnecting {
				t.Errorf("the defaults are not set: %+v", o)
			}
		})
	}
}
