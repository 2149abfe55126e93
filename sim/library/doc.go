// Package library makes a simulation from a configuration. It has the protocols, transports,
// initialisers and controls that a configuration can name. Their names are those of PeerSim.
//
// AverageED and InfectionED exchange messages, and newscast does so if it has a transport. So any
// number of workers can work on them. AverageFunction, MaxFunction and newscast without a transport
// change the state of other nodes, as in PeerSim. They need one worker.
//
// The classes that PeerSim does not have are InfectionED, InfectionSeed, InfectionObserver,
// MatrixTransport, CoordinateTransport and TraceTransport.
package library
