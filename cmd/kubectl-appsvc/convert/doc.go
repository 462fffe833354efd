// Package convert makes an AppService from a Deployment and the objects beside it: a Service, a
// HorizontalPodAutoscaler and a PodDisruptionBudget. It is pure.
//
//	app, notes, err := convert.ToAppService(objects)
//
// # Contract
//
//   - What the AppService cannot express is in the notes, with its path and value. Nothing is left out
//     silently: the notes come from a comparison of each object with the one that the AppService
//     renders.
//   - The notes name each ConfigMap and Secret that the pods use, because an AppService sends them only
//     if it lists them.
//   - Labels and annotations of Fleetwright are left out: the hub refuses them.
//   - Defaults of the API server, the status, and what only the API server sets are left out.
package convert
