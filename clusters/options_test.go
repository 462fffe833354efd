package clusters

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
)

func TestOptions(t *testing.T) {
	const fine = ""
	tests := map[string]struct {
		change func(*Options)
		want   string // part of the error
	}{
		"with what is required":        {func(*Options) {}, fine},
		"without a scheme":             {func(o *Options) { o.Scheme = nil }, "Scheme is required"},
		"without a mapper":             {func(o *Options) { o.Mapper = nil }, "Mapper is required"},
		"with a negative rate":         {func(o *Options) { o.QPS = -1 }, "QPS is -1"},
		"with a negative burst":        {func(o *Options) { o.Burst = -1 }, "Burst is -1"},
		"that read nothing":            {func(o *Options) { o.ReadRate = -1 }, "ReadRate is -1"},
		"that read less than a chunk":  {func(o *Options) { o.ReadBurst = 1 }, "ReadBurst is 1"},
		"whose lists hold no object":   {func(o *Options) { o.MaxListBytes = 1 }, "MaxListBytes is 1"},
		"that never connect":           {func(o *Options) { o.ConnectTimeout = -1 }, "ConnectTimeout is -1ns"},
		"that probe in a loop":         {func(o *Options) { o.ProbeInterval = 1 }, "ProbeInterval is 1ns"},
		"that take watches for silent": {func(o *Options) { o.WatchSilence = -1 }, "WatchSilence is -1ns"},
		"that let nobody connect":      {func(o *Options) { o.MaxConnecting = -1 }, "MaxConnecting is -1"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			o := Options{Scheme: runtime.NewScheme(), Mapper: meta.NewDefaultRESTMapper(nil)}
			test.change(&o)
			p, err := New(t.Context(), o)
			if (err == nil) != (test.want == fine) || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Fatalf("got %v, want %q", err, test.want)
			}
			if err != nil {
				return
			}
			if o := p.options; o.ConnectTimeout != 30*time.Second || o.ProbeInterval != 10*time.Second || o.QPS != 20 || o.UserAgent == "" || cap(o.slots.first) != DefaultMaxConnecting {
				t.Errorf("the defaults are not set: %+v", o)
			}
		})
	}
}
