package lineage_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// backup is a copy of objects of the hub as its etcd stores them.
type backup struct {
	keys   []string
	values [][]byte
}

// backup returns a copy of the AppService, of its slices and of all MemberClusters.
func (f *fleet) backup() backup {
	f.Helper()
	var b backup
	add := func(kind, key, namespace, name string) {
		object := &unstructured.Unstructured{}
		object.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(kind))
		f.must(f.hub.Get(f.Context(), client.ObjectKey{Namespace: namespace, Name: name}, object))
		value, err := object.MarshalJSON()
		f.must(err)
		b.keys, b.values = append(b.keys, "/registry/"+v1alpha1.GroupVersion.Group+"/"+key), append(b.values, value)
	}
	add("AppService", "appservices/"+f.app.Namespace+"/"+f.app.Name, f.app.Namespace, f.app.Name)
	var slices v1alpha1.AppServiceSliceList
	f.must(f.hub.List(f.Context(), &slices, client.InNamespace(f.app.Namespace)))
	for _, slice := range slices.Items {
		add("AppServiceSlice", "appserviceslices/"+slice.Namespace+"/"+slice.Name, slice.Namespace, slice.Name)
	}
	for name := range f.members {
		add("MemberCluster", "memberclusters/"+name, "", name)
	}
	return b
}

// restore stops the operator and restores the objects in the etcd of the hub, with their UIDs,
// generations, times and status.
func (f *fleet) restore(b backup) {
	f.Helper()
	f.operator.stop()
	for i := range b.keys {
		// etcd accepts its gRPC calls also as JSON, with bytes in base64, which is the format of
		// encoding/json.
		body, err := json.Marshal(map[string][]byte{"key": []byte(b.keys[i]), "value": b.values[i]})
		f.must(err)
		url := f.hub.environment.ControlPlane.Etcd.URL.JoinPath("/v3/kv/put").String()
		request, err := http.NewRequestWithContext(f.Context(), http.MethodPost, url, bytes.NewReader(body))
		f.must(err)
		response, err := http.DefaultClient.Do(request)
		f.must(err)
		f.must(response.Body.Close())
		if response.StatusCode != http.StatusOK {
			f.Fatal("etcd answers", response.Status)
		}
	}
	was := &v1alpha1.AppService{}
	f.must(json.Unmarshal(b.values[0], was))
	f.eventually("the hub to have the restored objects", func() error {
		f.read()
		if f.app.UID != was.UID || f.app.Generation != was.Generation {
			return fmt.Errorf("the AppService has UID %s and generation %d", f.app.UID, f.app.Generation)
		}
		return nil
	})
}
