// Package numa owns topology, CPU affinity, memory policy and page placement of this host. It must not know what the memory
// holds. Everything degrades to one node without permissions or on other platforms, and says so.
//
// What the kernel does with policies was measured (DESIGN §5); the rules that follow from it:
//
//   - A thread's own policy decides where it brings pages in, file pages included; the policy of a mapping is ignored for files
//     on disks. Go starts threads before main, so a process gets its policy by ExecPinned: all threads of the new image inherit it.
//   - Only Locate tells where pages are. What numa_maps and get_mempolicy say of a file mapping is not what happens.
//   - Pages that were cached on another node stay there until Migrate moves them.
package numa
