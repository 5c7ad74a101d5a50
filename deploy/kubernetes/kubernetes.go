// Package kubernetes holds the manifests, and the test that renders them and decodes every object strictly.
package kubernetes
