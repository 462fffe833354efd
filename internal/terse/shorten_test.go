package main

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

func TestFirstSentence(t *testing.T) {
	for text, want := range map[string]string{
		"One sentence.":                         "One sentence.",
		"The first one. The second one.":        "The first one.",
		"Ends with the line.\nThe second one.":  "Ends with the line.",
		"Without a period\n\nanother paragraph": "Without a period",
		"Without a period\nin two lines":        "Without a period\nin two lines",
		"A default, e.g. 0.01 for 1%. Another.": "A default, e.g. 0.01 for 1%.",
		"See spec.containers and so on. More.":  "See spec.containers and so on.",
		"":                                      "",
	} {
		if got := firstSentence(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

const (
	longCRD = `
spec:
  names: {kind: AppService}
  versions:
  - schema:
      openAPIV3Schema:
        description: Ours. Whole.
        properties:
          spec:
            description: Ours. Whole.
            properties:
              affinity:
                description: Ours. Whole.
                properties:
                  podAffinity: {description: First. Second., properties: {a: {description: First. Second.}}}
                  podAntiAffinity: {description: First. Second., properties: {a: {description: First. Second.}}}
              env:
                description: Ours. Whole.
                items: {description: First. Second., properties: {name: {description: First. Second.}}}
              initContainers:
                description: Ours. Whole.
                items:
                  description: Ours. Whole.
                  properties:
                    env:
                      description: Ours. Whole.
                      items: {description: First. Second., properties: {name: {description: First. Second.}}}
              nodeSelector: {description: Ours. Whole., additionalProperties: {type: string}}
`
	shortCRD = `
spec:
  names: {kind: AppService}
  versions:
  - schema:
      openAPIV3Schema:
        description: Ours. Whole.
        properties:
          spec:
            description: Ours. Whole.
            properties:
              affinity:
                description: Ours. Whole.
                properties:
                  podAffinity: {description: First., properties: {a: {description: First.}}}
                  podAntiAffinity: {description: First., properties: {a: {}}}
              env:
                description: Ours. Whole.
                items: {description: First. Second., properties: {name: {description: First.}}}
              initContainers:
                description: Ours. Whole.
                items:
                  description: Ours. Whole.
                  properties:
                    env:
                      description: Ours. Whole.
                      items: {description: First. Second., properties: {name: {}}}
              nodeSelector: {description: Ours. Whole., additionalProperties: {type: string}}
`
)

func TestShorten_keeps_the_descriptions_of_this_API(t *testing.T) {
	got, err := shortenCRD([]byte(longCRD))
	if err != nil {
		t.Fatal(err)
	}
	again, err := shortenCRD(got)
	if err != nil {
		t.Fatal(err)
	}
	var want, is, twice any
	if err := errors.Join(yaml.Unmarshal([]byte(shortCRD), &want), yaml.Unmarshal(got, &is), yaml.Unmarshal(again, &twice)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, is); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want, twice); diff != "" {
		t.Errorf("a second time (-want +got):\n%s", diff)
	}
}

func TestShorten_refuses_what_it_does_not_know(t *testing.T) {
	for _, text := range []string{"{spec: {names: {kind: Other}}}", "{spec: {names: {kind: AppService}, versions: [{}]}}"} {
		if _, err := shortenCRD([]byte(text)); err == nil {
			t.Errorf("%s: no error", text)
		}
	}
}
