package workload

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"sort"
	"strings"

	jsonpatch "github.com/evanphx/json-patch/v5"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	k8sjson "k8s.io/apimachinery/pkg/util/json"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// maxPatched is how large patches may make an object, and how much the copies of one patch may add.
// It is about the limit of etcd.
const maxPatched = 1 << 20

// patch applies the patches of the overrides in their order.
func (w *Workload) patch(app *v1alpha1.AppService, overrides []v1alpha1.Override) error {
	for _, override := range overrides {
		for i, patch := range override.Patches {
			object := w.target(patch.Target)
			if *object == nil {
				if patch.Target == v1alpha1.PatchHorizontalPodAutoscaler && app.Spec.Autoscaling != nil {
					continue // the share of this cluster is none at present
				}
				return &OverrideError{Override: override.Name, Err: fmt.Errorf("patches[%d]: %s", i, missing[patch.Target])}
			}
			patched, err := apply(*object, patch)
			if err != nil {
				return &OverrideError{Override: override.Name, Err: fmt.Errorf("patches[%d] of the %s: %w", i, patch.Target, err)}
			}
			*object = patched
		}
	}
	return nil
}

// missing explains why there is no object for a patch.
var missing = map[v1alpha1.PatchTarget]string{
	v1alpha1.PatchService:                 "there is no Service to patch, because spec.ports is empty",
	v1alpha1.PatchHorizontalPodAutoscaler: "there is no HorizontalPodAutoscaler to patch, because spec.autoscaling is not set",
	v1alpha1.PatchPodDisruptionBudget:     "there is no PodDisruptionBudget to patch, because spec.disruptionBudget is not set",
}

// target returns where the workload has the object of a kind. The schema allows no other kinds.
func (w *Workload) target(kind v1alpha1.PatchTarget) **unstructured.Unstructured {
	switch kind {
	case v1alpha1.PatchService:
		return &w.Service
	case v1alpha1.PatchHorizontalPodAutoscaler:
		return &w.Autoscaler
	case v1alpha1.PatchPodDisruptionBudget:
		return &w.DisruptionBudget
	default:
		return &w.Deployment
	}
}

// apply returns the object after the patch. An error names the operation that causes it.
func apply(object *unstructured.Unstructured, patch v1alpha1.Patch) (*unstructured.Unstructured, error) {
	var operations jsonpatch.Patch
	for i, o := range patch.Operations {
		operation, err := operationOf(o)
		if err != nil {
			return nil, failed(i, o, err)
		}
		operations = append(operations, operation)
	}
	document, err := json.Marshal(object.Object)
	if err != nil {
		return nil, err
	}
	patched, err := patchedBy(object, document, operations)
	if tooLarge := (*jsonpatch.AccumulatedCopySizeError)(nil); errors.As(err, &tooLarge) {
		i := firstTooLarge(document, operations)
		return nil, failed(i, patch.Operations[i], fmt.Errorf("the copies of the patch add more than %d bytes: copy less", maxPatched))
	}
	if err != nil && !isCheap(document, patch) {
		return nil, err
	}
	// The object may be valid without the last operations: the first operation that makes it
	// invalid is named.
	for count := len(operations) - 1; err != nil && count >= 0; count-- {
		_, before := patchedBy(object, document, operations[:count])
		if before == nil {
			return nil, failed(count, patch.Operations[count], err)
		}
		err = before
	}
	return patched, err
}

// firstTooLarge returns the index of the operation whose copy exceeds the limit. Copies only add
// up, so a binary search finds it with few large documents.
func firstTooLarge(document []byte, operations jsonpatch.Patch) int {
	return sort.Search(len(operations)-1, func(i int) bool {
		_, err := applyTo(document, operations[:i+1])
		return err != nil
	})
}

// maxBlamed is how large a patched document may be for the failing operation to be searched. The
// search runs for each member.
const maxBlamed = 64 << 10

func isCheap(document []byte, patch v1alpha1.Patch) bool {
	size := len(document)
	for _, o := range patch.Operations {
		switch {
		case o.Op == "copy":
			size *= 2 // at most
		case o.Value != nil:
			size += len(o.Value.Raw)
		}
		if size > maxBlamed {
			return false
		}
	}
	return true
}

func failed(index int, o v1alpha1.PatchOperation, err error) error {
	return fmt.Errorf("operations[%d] (%s %s): %w", index, o.Op, o.Path, err)
}

// patchedBy returns the object after the operations, if it is valid.
func patchedBy(object *unstructured.Unstructured, document []byte, operations jsonpatch.Patch) (*unstructured.Unstructured, error) {
	text, err := applyTo(document, operations)
	if err != nil {
		return nil, err
	}
	if len(text) > maxPatched {
		return nil, fmt.Errorf("the object would have %d bytes, and the limit is %d: make the patches smaller", len(text), maxPatched)
	}
	var after map[string]any
	if err := k8sjson.Unmarshal(text, &after); err != nil {
		return nil, err
	}
	if err := checkIdentity(object.Object, after); err != nil {
		return nil, err
	}
	typed, err := decode(text, after)
	if err != nil {
		return nil, err
	}
	patched, err := content(typed)
	if err != nil {
		return nil, err
	}
	return patched, checkKeys(typed)
}

func applyTo(document []byte, operations jsonpatch.Patch) ([]byte, error) {
	options := jsonpatch.NewApplyOptions()
	options.SupportNegativeIndices = false // RFC 6902 knows none
	options.AccumulatedCopySizeLimit = maxPatched
	return operations.ApplyWithOptions(document, options)
}

// decode reads an object by its type. encoding/json checks the range of numbers, and the converter
// the case of names.
func decode(text []byte, content map[string]any) (typedObject, error) {
	kind, _ := content["kind"].(string)
	typed, checked := emptyOf(kind), emptyOf(kind)
	if err := json.Unmarshal(text, typed); err != nil {
		return nil, inJSON(err)
	}
	return typed, runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(content, checked, true)
}

func emptyOf(kind string) typedObject {
	switch v1alpha1.PatchTarget(kind) {
	case v1alpha1.PatchService:
		return &corev1.Service{}
	case v1alpha1.PatchHorizontalPodAutoscaler:
		return &autoscalingv2.HorizontalPodAutoscaler{}
	case v1alpha1.PatchPodDisruptionBudget:
		return &policyv1.PodDisruptionBudget{}
	default:
		return &appsv1.Deployment{}
	}
}

// operationOf returns an operation for the library. It refuses operations that the library would
// ignore, or panic on.
func operationOf(o v1alpha1.PatchOperation) (jsonpatch.Operation, error) {
	operation := jsonpatch.Operation{"op": text(o.Op), "path": text(o.Path)}
	if err := checkPointer("path", o.Path); err != nil {
		return nil, err
	}
	switch o.Op {
	case "move", "copy":
		operation["from"] = text(o.From)
		return operation, checkPointer("from", o.From)
	case "add", "replace", "test":
		value, err := valueOf(o)
		operation["value"] = value
		return operation, err
	case "remove":
		return operation, nil
	}
	return nil, errors.New("op must be add, remove, replace, move, copy or test")
}

// checkPointer refuses empty names: no object here has a field of that name, and the library would
// patch a copy of it.
func checkPointer(field, pointer string) error {
	if !strings.HasPrefix(pointer, "/") || strings.HasSuffix(pointer, "/") || strings.Contains(pointer, "//") {
		return fmt.Errorf("%s %q must be a JSON pointer to a field, such as /spec/template", field, pointer)
	}
	return nil
}

// valueOf returns the value of an operation. Only a test may have null, which means that the field
// is absent.
func valueOf(o v1alpha1.PatchOperation) (*json.RawMessage, error) {
	if o.Value == nil || len(o.Value.Raw) == 0 {
		if o.Op == "test" {
			return nil, nil //nolint:nilnil // null, to the library
		}
		return nil, errors.New("needs a value that is not null; to remove a field, use op remove")
	}
	var value any
	decoder := json.NewDecoder(bytes.NewReader(o.Value.Raw))
	decoder.UseNumber()
	if err := decoder.Decode(&value); err != nil {
		return nil, fmt.Errorf("value: %w", err)
	}
	if text := absurdIn(value); text != "" && !texts.MatchString(o.Path) {
		return nil, fmt.Errorf("value contains the impossible number %.32q", text)
	}
	if hasNull(value) {
		return nil, errors.New("value contains null: remove it")
	}
	raw := json.RawMessage(o.Value.Raw)
	return &raw, nil
}

// absurd matches a number whose exponent is so large that parsing it as a quantity exhausts time
// and memory.
var absurd = regexp.MustCompile(`^[+-]?[0-9.]+[eE][+-]?[0-9]{6,}$`)

// texts matches the paths whose values are text. Text may look like such a number: 12e4567890 is a
// short hash.
var texts = regexp.MustCompile(`/(labels|annotations|matchLabels|nodeSelector|args|command|env)(/|$)`)

// absurdIn returns such a number in a value, or an empty text.
func absurdIn(value any) string {
	switch value := value.(type) {
	case string:
		return absurd.FindString(value)
	case json.Number:
		return absurd.FindString(value.String())
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(value)) {
			if texts.MatchString("/" + key) {
				continue
			}
			if text := absurdIn(value[key]); text != "" {
				return text
			}
		}
	case []any:
		for _, inner := range value {
			if text := absurdIn(inner); text != "" {
				return text
			}
		}
	}
	return ""
}

func hasNull(value any) bool {
	switch value := value.(type) {
	case nil:
		return true
	case map[string]any:
		for _, inner := range value {
			if hasNull(inner) {
				return true
			}
		}
	case []any:
		for _, inner := range value {
			if hasNull(inner) {
				return true
			}
		}
	}
	return false
}

func text(value string) *json.RawMessage {
	quoted, _ := json.Marshal(value) // a string always can be
	raw := json.RawMessage(quoted)
	return &raw
}
