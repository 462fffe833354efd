package ui

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// objects are what a feed shows in these tests.
type objects map[objectKey]any

func (o objects) render(key objectKey) (any, bool) {
	object, exists := o[key]
	return object, exists
}

// read is a test's view of a change.
type read struct {
	full     bool
	clusters []string
	apps     []string
	gone     []string
}

func readSince(t *testing.T, f *feed, seen uint64) (read, uint64) {
	t.Helper()
	change, version, _, err := f.since(seen)
	if err != nil {
		t.Fatal(err)
	}
	got := read{full: change.Full, gone: change.Gone}
	for _, data := range change.Clusters {
		got.clusters = append(got.clusters, string(data))
	}
	for _, data := range change.Apps {
		got.apps = append(got.apps, string(data))
	}
	return got, version
}

func TestFeed(t *testing.T) {
	t.Parallel()
	web, east := objectKey{appKind, "shop", "web"}, objectKey{clusterKind, "", "east"}
	stored := objects{}
	f := newFeed(stored.render)
	check := func(name string, seen uint64, want read) uint64 {
		t.Helper()
		got, version := readSince(t, f, seen)
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(read{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		return version
	}

	first := check("an empty feed is a full change", 0, read{full: true})
	stored[web], stored[east] = 1, "up"
	f.touch(web, east)
	second := check("new objects are changes", first, read{clusters: []string{`"up"`}, apps: []string{"1"}})
	check("a new page gets everything", 0, read{full: true, clusters: []string{`"up"`}, apps: []string{"1"}})

	f.touch(web)
	check("an object that looks the same is no change", second, read{})

	stored[web] = 2
	f.touch(web)
	stored[web] = 3
	f.touch(web)
	third := check("only the latest state of an object is sent", second, read{apps: []string{"3"}})
	check("a page that missed several changes gets each object once", first, read{clusters: []string{`"up"`}, apps: []string{"3"}})

	delete(stored, web)
	f.touch(web)
	check("an object that is deleted is gone", third, read{gone: []string{"app/shop/web"}})
	check("a new page does not hear of what is gone", 0, read{full: true, clusters: []string{`"up"`}})
}

func TestFeed_wakes_its_readers(t *testing.T) {
	t.Parallel()
	f := newFeed(objects{}.render)
	_, _, news, err := f.since(0)
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-news:
		t.Fatal("there is news before the first touch")
	default:
	}
	f.touch()
	<-news
}

func TestChange_split(t *testing.T) {
	t.Parallel()
	raw := func(texts ...string) (list []json.RawMessage) {
		for _, text := range texts {
			list = append(list, json.RawMessage(text))
		}
		return list
	}
	for name, test := range map[string]struct {
		change Change
		want   []Change
	}{
		"nothing": {Change{}, []Change{{}}},
		"it fits": {Change{Full: true, Clusters: raw("12", "34"), Apps: raw("5")}, []Change{{Full: true, Clusters: raw("12", "34"), Apps: raw("5")}}},
		"parts": {
			Change{Full: true, Hub: Hub{Context: "demo"}, Clusters: raw("12", "34", "56"), Apps: raw("7", "89"), Gone: []string{"app/a/b"}},
			[]Change{
				{Full: true, More: true, Hub: Hub{Context: "demo"}, Clusters: raw("12", "34"), Gone: []string{"app/a/b"}},
				{Hub: Hub{Context: "demo"}, Clusters: raw("56"), Apps: raw("7", "89")},
			},
		},
		"an object above the limit": {Change{Apps: raw("1", "2345678", "9")}, []Change{{More: true, Apps: raw("1")}, {More: true, Apps: raw("2345678")}, {Apps: raw("9")}}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, test.change.split(5)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
