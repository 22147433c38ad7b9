// The library of Scans.java.
#include "../native/beat.h"
#include <jni.h>

__attribute__((noinline)) static void add_bytes(double seconds)
{
	compute(seconds);
}

JNIEXPORT jint JNICALL Java_Scans_checksum(JNIEnv *env, jclass class, jbyteArray picture, jdouble seconds)
{
	jbyte *bytes = (*env)->GetPrimitiveArrayCritical(env, picture, NULL);
	jint sum = bytes[0];

	add_bytes(seconds);
	(*env)->ReleasePrimitiveArrayCritical(env, picture, bytes, JNI_ABORT);
	return sum;
}
