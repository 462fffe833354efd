package configuration_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"pgregory.net/rapid"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/configuration"
)

var update = flag.Bool("update", false, "write the golden file")

// golden is a content with its names and its digest.
type golden struct {
	Namespace, AppService, Kind, From            string
	Type                                         corev1.SecretType `json:",omitempty"`
	Data, BinaryData                             map[string][]byte `json:",omitempty"`
	Digest, Snapshot, Versioned, InPlace, Absent string
}

func (g golden) identity() configuration.Identity {
	return configuration.Identity{Namespace: g.Namespace, AppService: g.AppService, Ref: configuration.Ref{Kind: v1alpha1.ConfigurationKind(g.Kind), From: g.From}}
}

func (g golden) content() configuration.Content {
	return configuration.Content{Type: g.Type, Data: g.Data, BinaryData: g.BinaryData}
}

// withNames returns the case with the names of the present code.
func (g golden) withNames() golden {
	digest := configuration.DigestOf(keyOf("k"), g.identity(), g.content())
	g.Digest, g.Snapshot = digest.String(), configuration.Name(g.identity(), digest)
	g.Versioned, g.InPlace, g.Absent = configuration.VersionedCopy(g.Snapshot), configuration.InPlaceCopy(g.identity()), configuration.AbsentName(g.identity())
	return g
}

// These names are in the Deployments of users. If one changes, an upgrade replaces pods. The key is
// 32 times the letter k.
func TestDigestsAndNamesAreThoseOfEarlierVersions(t *testing.T) {
	const file = "testdata/digests.json"
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var want, got []golden
	if err := json.Unmarshal(data, &want); err != nil {
		t.Fatal(err)
	}
	for _, g := range want {
		got = append(got, g.withNames())
	}
	if *update {
		text, err := json.MarshalIndent(got, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, append(text, '\n'), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("digests and names (-want +got):\n%s", diff)
	}
	names := map[string]bool{}
	for _, g := range want {
		names[g.Digest] = true
	}
	if len(want) == 0 || len(names) != len(want) {
		t.Errorf("%d contents have %d digests", len(want), len(names))
	}
}

func TestContentOfObjects(t *testing.T) {
	configMap := configuration.OfConfigMap(&corev1.ConfigMap{Data: map[string]string{"a": "b"}, BinaryData: map[string][]byte{"c": {0xff}}})
	if diff := cmp.Diff(configuration.Content{Data: map[string][]byte{"a": []byte("b")}, BinaryData: map[string][]byte{"c": {0xff}}}, configMap); diff != "" {
		t.Errorf("ConfigMap (-want +got):\n%s", diff)
	}
	secret := configuration.OfSecret(&corev1.Secret{Data: map[string][]byte{"a": []byte("b")}})
	if diff := cmp.Diff(configuration.Content{Type: corev1.SecretTypeOpaque, Data: map[string][]byte{"a": []byte("b")}}, secret); diff != "" {
		t.Errorf("Secret (-want +got):\n%s", diff)
	}
	if size := configMap.Size(); size != 2 {
		t.Errorf("the size is %d", size)
	}
}

func TestNothingPrintsTheKeyOrContent(t *testing.T) {
	content := text("geheim")
	printed := fmt.Sprintf("%v %+v %#v %s %v %+v %#v", keyOf("k"), keyOf("k"), keyOf("k"), content, content, struct{ C configuration.Content }{content}, content)
	isTold := func(text string) bool { return strings.Contains(printed, text) }
	// As text, and as bytes in decimal and hexadecimal: the content begins with 103, and the key with 107.
	if slices.ContainsFunc([]string{"geheim", "103", "0x67", "107", "0x6b", "kkk"}, isTold) {
		t.Errorf("printed: %s", printed)
	}
	if _, err := configuration.NewKey([]byte("short")); err == nil || err.Error() != "the key has 5 bytes instead of 32" {
		t.Errorf("a short key: %v", err)
	}
}

func TestParseDigest(t *testing.T) {
	want := configuration.DigestOf(keyOf("k"), configuration.Identity{}, text("a"))
	for annotation, digest := range map[string]configuration.Digest{want.String(): want, "": {}, "ab": {}, strings.Repeat("x", 64): {}} {
		if got := configuration.ParseDigest(annotation); got != digest {
			t.Errorf("ParseDigest(%q) is %s", annotation, got)
		}
	}
}

var (
	anyText   = rapid.StringMatching(`[ab\x00]{0,2}`)
	anyValues = rapid.MapOfN(anyText, rapid.SliceOfN(rapid.SampledFrom([]byte{'a', 'b', 0, 1, 0xff}), 0, 3), 0, 3)
	anyRef    = rapid.Custom(func(t *rapid.T) configuration.Ref {
		return configuration.Ref{
			Kind: rapid.SampledFrom([]v1alpha1.ConfigurationKind{v1alpha1.ConfigurationConfigMap, v1alpha1.ConfigurationSecret}).Draw(t, "kind"),
			From: anySource.Draw(t, "source"),
		}
	})
	anySource   = rapid.OneOf(rapid.SampledFrom([]string{"a", "b", "a-b", "a.b"}), rapid.StringMatching(`[a-z]([-a-z0-9]{0,20}[a-z0-9])?([.][a-z]([-a-z0-9]{0,60}[a-z0-9])?){0,3}`))
	anyIdentity = rapid.Custom(func(t *rapid.T) configuration.Identity {
		return configuration.Identity{
			Namespace:  rapid.SampledFrom([]string{"a", "ab", "shop"}).Draw(t, "namespace"),
			AppService: rapid.OneOf(rapid.SampledFrom([]string{"a", "ba", "web"}), rapid.StringMatching(`[a-z][-a-z0-9]{61}[a-z0-9]`)).Draw(t, "AppService"),
			Ref:        anyRef.Draw(t, "source"),
		}
	})
	anyContent = rapid.Custom(func(t *rapid.T) configuration.Content {
		return configuration.Content{Type: corev1.SecretType(anyText.Draw(t, "type")), Data: anyValues.Draw(t, "data"), BinaryData: anyValues.Draw(t, "binaryData")}
	})
)

// Equal contents of a source have equal names, and all others have different names.
func TestNames_stand_for_one_content(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		firstID, first := anyIdentity.Draw(t, "first"), anyContent.Draw(t, "first content")
		secondID := rapid.OneOf(rapid.Just(firstID), anyIdentity).Draw(t, "second")
		second := anyContent.Draw(t, "second content")
		switch rapid.SampledFrom([]string{"equal", "moved", "swapped", "any"}).Draw(t, "second content is") {
		case "equal":
			second = copyOf(first)
		case "moved":
			second = moved(first)
		case "swapped":
			second = configuration.Content{Type: first.Type, Data: first.BinaryData, BinaryData: first.Data}
		}
		isSame := firstID == secondID && first.Equal(second)
		key := keyOf("k")
		firstName := configuration.Name(firstID, configuration.DigestOf(key, firstID, first))
		secondName := configuration.Name(secondID, configuration.DigestOf(key, secondID, second))
		if (firstName == secondName) != isSame {
			t.Fatalf("%s and %s; same content: %t", firstName, secondName, isSame)
		}
		if isInPlace := configuration.InPlaceCopy(firstID) == configuration.InPlaceCopy(secondID); isInPlace != (firstID == secondID) {
			t.Fatalf("the names of the copies that are updated in place are equal: %t", isInPlace)
		}
		if other := configuration.Name(firstID, configuration.DigestOf(keyOf("o"), firstID, first)); other == firstName {
			t.Fatalf("the name %s does not depend on the key", other)
		}
	})
}

// copyOf returns an equal content whose maps are made in another order. An empty map may be nil.
func copyOf(content configuration.Content) configuration.Content {
	other := configuration.Content{Type: content.Type}
	for _, name := range slices.Backward(slices.Sorted(maps.Keys(content.Data))) {
		if other.Data == nil {
			other.Data = map[string][]byte{}
		}
		other.Data[name] = slices.Clone(content.Data[name])
	}
	other.BinaryData = maps.Clone(content.BinaryData)
	return other
}

// moved returns a content that has the same bytes, with the last one of a key in its value.
func moved(content configuration.Content) configuration.Content {
	other := copyOf(content)
	for _, name := range slices.Sorted(maps.Keys(content.Data)) {
		if last := len(name) - 1; last >= 0 {
			delete(other.Data, name)
			other.Data[name[:last]] = append([]byte(name[last:]), content.Data[name]...)
			break
		}
	}
	return other
}

// All names are valid and different, also those of long names.
func TestNames_are_valid(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		id := anyIdentity.Draw(t, "identity")
		if rapid.Bool().Draw(t, "is long") {
			id.From = rapid.StringMatching(`[a-z0-9]([-a-z0-9]{0,3}[a-z0-9])?([.][a-z0-9]([-a-z0-9]{0,3}[a-z0-9])?){60,90}`).Draw(t, "long source")
			id.From = strings.TrimRight(id.From[:min(len(id.From), 253)], "-.")
		}
		snapshot := configuration.Name(id, configuration.DigestOf(keyOf("k"), id, anyContent.Draw(t, "content")))
		names := []string{snapshot, configuration.VersionedCopy(snapshot), configuration.InPlaceCopy(id), configuration.AbsentName(id), configuration.VersionedCopy(configuration.AbsentName(id))}
		for _, name := range names {
			if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 || !strings.HasPrefix(name, id.AppService+"-") {
				t.Fatalf("%q: %v", name, problems)
			}
		}
		if slices.Sort(names); len(slices.Compact(names)) != 5 {
			t.Fatalf("some of these are equal: %v", names)
		}
		if configuration.IsAbsent(snapshot) || !configuration.IsAbsent(configuration.AbsentName(id)) {
			t.Fatal("a snapshot and an absent source are mixed up")
		}
	})
}
