// Package packaging checks a user's values for the Helm chart. Its folders have what packages,
// images and charts are made of.
package packaging
