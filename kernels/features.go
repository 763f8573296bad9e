package kernels

import (
	"os"

	"golang.org/x/sys/cpu"
)

// Feature is one ability of a CPU that implementations ask for.
type Feature struct {
	Name    string `json:"name"` // as in /proc/cpuinfo
	Present bool   `json:"present"`
}

// Features lists what this CPU (and its operating system) offers of what implementations ask for; all absent on other
// architectures. AMX is what CPUID says: a process must also ask the kernel for permission.
func Features() []Feature {
	emulated := AMXEmulated()
	return []Feature{
		{"avx2", cpu.X86.HasAVX2},
		{"fma", cpu.X86.HasFMA},
		{"avx512f", cpu.X86.HasAVX512F},
		{"avx512bw", cpu.X86.HasAVX512BW},
		{"avx512vl", cpu.X86.HasAVX512VL},
		{"avx512dq", cpu.X86.HasAVX512DQ},
		{"avx512_vnni", cpu.X86.HasAVX512VNNI},
		{"avx_vnni", cpu.X86.HasAVXVNNI},
		{"amx_tile", cpu.X86.HasAMXTile || emulated},
		{"amx_int8", cpu.X86.HasAMXInt8 || emulated},
	}
}

// AMXEmulated says whether AMX counts as present only because AMXTRAP=1 is in the environment: something catches the
// instructions and computes them slowly. The program says so once.
func AMXEmulated() bool {
	return os.Getenv("AMXTRAP") == "1" && !(cpu.X86.HasAMXTile && cpu.X86.HasAMXInt8)
}
