// Package story tells the main job from an agent's first heartbeat to a rejected one, through REST alone,
// and checks every answer on the way. `make demo` prints it; the end-to-end test runs the same steps.
package story
