/*
 * Preloaded into a program that asks the system for addresses: one name is looked up for ever, all
 * others as they are.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <netdb.h>
#include <string.h>
#include <unistd.h>

typedef int lookup(const char *, const char *, const struct addrinfo *, struct addrinfo **);

int getaddrinfo(const char *name, const char *service, const struct addrinfo *hints,
                struct addrinfo **found) {
    while (name && strcmp(name, "hangs.invalid") == 0) pause();
    lookup *real = (lookup *)dlsym(RTLD_NEXT, "getaddrinfo");
    return real ? real(name, service, hints, found) : EAI_SYSTEM;
}
