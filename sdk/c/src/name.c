#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "name.h"

static bool digit(char c) { return c >= '0' && c <= '9'; }

static bool in_word(char c)
{
	bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');

	return letter || digit(c) || c == '-' || c == '_' || c == '.';
}

/* word checks an actor or a point of n bytes. It returns NULL, or what is wrong. */
static const char *word(const char *text, size_t n)
{
	if (n == 0)
		return "the actor or the point is empty";
	if (text[0] == '.')
		return "the actor or the point starts with '.'";
	for (size_t i = 0; i < n; i++)
		if (!in_word(text[i]))
			return "use letters, digits, '-', '_' and '.'";
	return NULL;
}

/* instance checks the text after the #, which must be a number without leading zeros. */
static const char *instance(const char *text, size_t n)
{
	static const char *const wrong = "the instance is not a number from 0 to 1023";
	long v = 0;

	if (n == 0 || n > 4 || (n > 1 && text[0] == '0'))
		return wrong;
	for (size_t i = 0; i < n; i++) {
		if (!digit(text[i]))
			return wrong;
		v = 10 * v + (text[i] - '0');
	}
	return v > CP_MAX_INSTANCE ? wrong : NULL;
}

const char *cp_parse_name(const char *text, struct cp_name *name)
{
	const char *slash, *hash, *why;

	if (text == NULL)
		return "it is NULL";
	if (strlen(text) > CP_MAX_NAME)
		return "it is longer than 128 bytes";
	slash = strchr(text, '/');
	if (slash == NULL)
		return "it has no point";
	hash = memchr(text, '#', (size_t)(slash - text));
	if (hash != NULL && (why = instance(hash + 1, (size_t)(slash - hash - 1))) != NULL)
		return why;
	if ((why = word(text, (size_t)((hash != NULL ? hash : slash) - text))) != NULL)
		return why;
	if ((why = word(slash + 1, strlen(slash + 1))) != NULL)
		return why;
	strcpy(name->text, text);
	strcpy(name->stem, text);
	name->stem[slash - text] = '~';
	return NULL;
}
