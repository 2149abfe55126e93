// Package library has the protocols, transports, initialisers and controls of simulations under the
// names that PeerSim's configurations use, and makes a simulation from a configuration.
//
// AverageED, InfectionED and newscast with a transport exchange messages, so any number of workers
// can work on them. AverageFunction, MaxFunction and newscast without a transport change the state
// of other nodes, as in PeerSim. They need one worker.
//
// The classes that PeerSim does not have are InfectionED, InfectionSeed, InfectionObserver,
// MatrixTransport, CoordinateTransport and TraceTransport.
package library
