// Package packaging checks a user's values for the Helm chart. Its folders contain the files from
// which packages, images and charts are made.
package packaging
