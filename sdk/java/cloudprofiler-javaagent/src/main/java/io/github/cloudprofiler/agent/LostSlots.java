package io.github.cloudprofiler.agent;

import java.util.BitSet;
import java.util.HashMap;
import java.util.Map;
import org.objectweb.asm.MethodVisitor;
import org.objectweb.asm.Opcodes;
import org.objectweb.asm.Type;

/**
 * Finds the parameters of a method that have lost their first value when the method returns. Either
 * the method writes to their local variables, or a stack map frame drops these variables or gives
 * them another type.
 */
final class LostSlots extends MethodVisitor {
    private final Map<Integer, Object> parameters = new HashMap<>(); // by slot, as frames name them
    private final BitSet lost = new BitSet();

    LostSlots(String owner, int access, String descriptor) {
        super(Opcodes.ASM9);
        int slot = 0;
        if ((access & Opcodes.ACC_STATIC) == 0) {
            parameters.put(slot++, owner);
        }
        for (Type t : Type.getArgumentTypes(descriptor)) {
            parameters.put(slot, ClassWeaver.inFrames(t));
            slot += t.getSize();
        }
    }

    boolean contains(int slot, int size) {
        return !lost.get(slot, slot + size).isEmpty();
    }

    @Override
    public void visitVarInsn(int opcode, int slot) {
        if (opcode >= Opcodes.ISTORE && opcode <= Opcodes.ASTORE) {
            boolean wide = opcode == Opcodes.LSTORE || opcode == Opcodes.DSTORE;
            lost.set(slot, slot + (wide ? 2 : 1));
        }
    }

    @Override
    public void visitIincInsn(int slot, int by) {
        lost.set(slot);
    }

    @Override
    public void visitFrame(int type, int count, Object[] locals, int onStack, Object[] stack) {
        Map<Integer, Object> have = new HashMap<>();
        int slot = 0;
        for (int i = 0; i < count; i++) {
            have.put(slot, locals[i]);
            slot += locals[i] == Opcodes.LONG || locals[i] == Opcodes.DOUBLE ? 2 : 1;
        }
        parameters.forEach((at, parameter) -> {
            Object has = have.get(at);
            if (!parameter.equals(has) && has != Opcodes.UNINITIALIZED_THIS) {
                lost.set(at);
            }
        });
    }
}
