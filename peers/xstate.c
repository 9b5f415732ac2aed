/* The vector registers of a guest's processes on hosts with more of them.
 *
 * A user-mode kernel reads a process's registers into a buffer of the size that it was
 * built for, and writes them back from it. Where the processor has AMX, the host takes
 * nothing but all registers (xstateregs_set), and every process of the guest dies. So what
 * is written is completed by what is there. Preloaded by peerlib.py on such hosts.
 */
#define _GNU_SOURCE
#include <elf.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static long raw(long request, long pid, void *addr, void *data)
{
	return syscall(SYS_ptrace, request, pid, addr, data);
}

long ptrace(enum __ptrace_request request, ...)
{
	va_list args;
	va_start(args, request);
	long pid = va_arg(args, int);
	void *addr = va_arg(args, void *);
	void *data = va_arg(args, void *);
	va_end(args);

	if (request == PTRACE_SETREGSET && (long)addr == NT_X86_XSTATE) {
		static __thread unsigned char all[16384] __attribute__((aligned(64)));
		const struct iovec *given = data;
		struct iovec whole = { all, sizeof all };
		if (raw(PTRACE_GETREGSET, pid, addr, &whole) == 0 && given->iov_len < whole.iov_len) {
			memcpy(all, given->iov_base, given->iov_len);
			return raw(PTRACE_SETREGSET, pid, addr, &whole);
		}
	}
	if ((unsigned)request - 1 < 3) {
		/* Peeks: the word is the result. */
		long word;
		return raw(request, pid, addr, &word) < 0 ? -1 : word;
	}
	return raw(request, pid, addr, data);
}
