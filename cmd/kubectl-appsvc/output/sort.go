package output

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/util/jsonpath"
)

// SortList sorts a list of objects by the field at a JSONPath, as kubectl does: numbers and quantities
// by their size, and other texts by their characters, with the numbers in them by their size. An object
// without the field comes first. The objects keep their order if by is "".
func SortList(list runtime.Object, by string) error {
	if by == "" {
		return nil
	}
	field, err := parseField(by)
	if err != nil {
		return fmt.Errorf("--sort-by: %w", err)
	}
	items, err := meta.ExtractList(list)
	if err != nil {
		return err
	}
	type entry struct {
		item   runtime.Object
		values []any
	}
	var entries []entry
	isFound := len(items) == 0
	for _, item := range items {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(item)
		if err != nil {
			return err
		}
		values := valuesOf(field, content)
		isFound = isFound || len(values) > 0
		entries = append(entries, entry{item, values})
	}
	if !isFound {
		return fmt.Errorf("--sort-by: no object of the list has the field %s", by)
	}
	slices.SortStableFunc(entries, func(a, b entry) int { return slices.CompareFunc(a.values, b.values, compareValues) })
	for i := range entries {
		items[i] = entries[i].item
	}
	return meta.SetList(list, items)
}

// relaxedPath is a JSONPath as kubectl accepts it, with or without braces and the first dot.
var relaxedPath = regexp.MustCompile(`^(?:\{\.?([^{}]+)\}|\.?([^{}]+))$`)

// parseField returns the JSONPath of a field.
func parseField(path string) (*jsonpath.JSONPath, error) {
	parts := relaxedPath.FindStringSubmatch(path)
	if parts == nil {
		return nil, fmt.Errorf("%q is not a JSONPath of a field, such as .metadata.name", path)
	}
	field := jsonpath.New("field").AllowMissingKeys(true)
	if err := field.Parse("{." + parts[1] + parts[2] + "}"); err != nil {
		return nil, fmt.Errorf("%q is not a JSONPath of a field, such as .metadata.name: %w", path, err)
	}
	return field, nil
}

// valuesOf returns the values of a field in an object, or nothing if the object does not have it.
func valuesOf(field *jsonpath.JSONPath, content map[string]any) []any {
	results, err := field.FindResults(content)
	if err != nil { // such as an index that is out of range
		return nil
	}
	var values []any
	for _, result := range results {
		for _, value := range result {
			if value.IsValid() && value.CanInterface() && value.Interface() != nil {
				values = append(values, value.Interface())
			}
		}
	}
	return values
}

// compareValues compares two values of a field.
func compareValues(a, b any) int {
	first, second := fmt.Sprint(a), fmt.Sprint(b)
	firstSize, err := resource.ParseQuantity(first)
	secondSize, otherErr := resource.ParseQuantity(second)
	if err == nil && otherErr == nil {
		return firstSize.Cmp(secondSize)
	}
	return compareNatural(first, second)
}

// textOrNumber matches the parts of a text that are compared with each other.
var textOrNumber = regexp.MustCompile(`\d+|\D+`)

// compareNatural compares two texts. The numbers in them are compared by their size: east-2 is before
// east-10.
func compareNatural(a, b string) int {
	return slices.CompareFunc(textOrNumber.FindAllString(a, -1), textOrNumber.FindAllString(b, -1), func(a, b string) int {
		first, err := strconv.ParseUint(a, 10, 64)
		second, otherErr := strconv.ParseUint(b, 10, 64)
		if err == nil && otherErr == nil {
			return cmp.Or(cmp.Compare(first, second), strings.Compare(a, b))
		}
		return strings.Compare(a, b)
	})
}
